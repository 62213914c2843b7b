"""The schemas that an engine knows."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from promptcache.errors import PromptError, RequestError
from promptcache.layout.layout import SchemaLayout
from promptcache.runtime.encoder import ModuleEncoder
from promptcache.runtime.timing import Stopwatch
from promptcache.source import Span


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


class LoadedSchemas:
    """Schemas by name, and their states in the store. Safe to use from many threads."""

    def __init__(self, encoder: ModuleEncoder) -> None:
        self._encoder = encoder
        self._schemas: dict[str, LoadedSchema] = {}
        self._lock = threading.Lock()

    def all(self) -> dict[str, LoadedSchema]:
        """All of them (a copy)."""
        with self._lock:
            return dict(self._schemas)

    def find(self, name: str, span: Span | None) -> LoadedSchema:
        """The schema of that name. Raises PromptError at the prompt's place."""
        with self._lock:
            if name not in self._schemas:
                raise PromptError(f"no schema named {name!r} is loaded", hint=self._hint(), span=span)
            return self._schemas[name]

    def load(
        self, layout: SchemaLayout, *, replace: bool, encode: bool, progress: Callable[[int, int], None] | None
    ) -> LoadedSchema:
        """Encodes a schema and keeps it. The same schema again is the one that is there; raises RequestError for
        another one under a name in use."""
        known = self.all().get(layout.name)
        if known is not None and not replace:
            if known.layout == layout:
                return known
            raise RequestError(
                f"a schema named {layout.name!r} is loaded already", hint="unload it first, or pass replace=True"
            )
        watch = Stopwatch()
        encoded = self._encoder.encode(layout, progress) if encode else 0
        num_bytes = layout.num_tokens * self._encoder.adapter.bytes_per_token
        schema = LoadedSchema(layout, num_bytes, encoded, watch.lap() if encoded else 0.0)
        with self._lock:
            replaced = self._schemas.get(layout.name)
            self._schemas[layout.name] = schema
            if replaced is not None:
                self._discard(replaced)
        return schema

    def unload(self, name: str) -> None:
        """Forgets a schema and the states that no other one shares. Raises RequestError for an unknown name."""
        with self._lock:
            if name not in self._schemas:
                raise RequestError(f"no schema named {name!r} is loaded", hint=self._hint())
            self._discard(self._schemas.pop(name))

    def _hint(self) -> str:
        return f"loaded are: {', '.join(sorted(self._schemas)) or 'none; call load_schema first'}"

    def _discard(self, schema: LoadedSchema) -> None:
        kept = {segment.key for other in self._schemas.values() for segment in other.layout.stored}
        for segment in schema.layout.stored:
            if segment.key not in kept:
                self._encoder.store.discard(segment.key)
