"""Stored states as a request's rows see them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import torch

from promptcache.kv.block import KVBlock

NEVER = torch.iinfo(torch.int64).max
"""The first row to see a token that no row sees."""


class Layers(Protocol):
    """One tensor a layer, asked for when the layer is computed."""

    def __getitem__(self, layer: int, /) -> torch.Tensor: ...


@dataclass(frozen=True)
class SegmentView:
    """Stored states of consecutive tokens: `keys[layer]` and `values[layer]` are [1, num_kv_heads, seq_len, head_dim].

    The query rows from `first_row` on see it, those before see none of it: rows are sorted by position. Where that is
    not all, `first_rows`, int64 [seq_len], says of each token from which row on it is seen, NEVER for one that is
    computed again. It is used `shift` positions behind its place of encoding.
    """

    keys: Layers
    values: Layers
    first_row: int
    shift: int = 0
    first_rows: torch.Tensor | None = None

    @classmethod
    def of(cls, block: KVBlock, first_row: int, shift: int = 0, first_rows: torch.Tensor | None = None) -> SegmentView:
        """A block where it lies."""
        keys, values = (tuple(layer[None] for layer in states) for states in (block.keys, block.values))
        return cls(keys, values, first_row, shift, first_rows)

    def behind(self) -> SegmentView:
        """The same for rows that stand behind all of it."""
        first_rows = None
        if self.first_rows is not None and bool((never := self.first_rows == NEVER).any()):
            first_rows = self.first_rows.where(never, 0)
        return replace(self, first_row=0, first_rows=first_rows)
