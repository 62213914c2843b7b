"""A schema that an engine knows."""

from __future__ import annotations

from dataclasses import dataclass

from promptcache.layout.layout import SchemaLayout


@dataclass(frozen=True)
class LoadedSchema:
    """`num_tokens` and `num_bytes` are those of its stored states; `layout` says where its tokens sit;
    `encoded_tokens` were run through the model when it was loaded, in `encode_ms` (0 where all was stored)."""

    layout: SchemaLayout
    num_bytes: int
    encoded_tokens: int
    encode_ms: float

    @property
    def name(self) -> str:
        """The schema's name."""
        return self.layout.name

    @property
    def num_tokens(self) -> int:
        """Tokens whose states are stored."""
        return self.layout.num_tokens
