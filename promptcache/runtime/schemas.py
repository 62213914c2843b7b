"""The schemas that an engine knows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Set
from dataclasses import dataclass, field
from functools import partial

from promptcache.errors import PromptError, RequestError
from promptcache.layout.encodings.key import SegmentKey
from promptcache.layout.layout import SchemaLayout
from promptcache.runtime.encoder import ModuleEncoder
from promptcache.runtime.timing import Stopwatch
from promptcache.source import Span


@dataclass(frozen=True)
class LoadedSchema:
    """`num_tokens` and `num_bytes` are those of its stored states; `layout` says where its tokens sit;
    `encoded_tokens` were run through the model when it was loaded, in `encode_ms` (0 where all was stored). One that is
    `pinned` is never evicted from memory."""

    layout: SchemaLayout
    num_bytes: int
    encoded_tokens: int
    encode_ms: float
    _find_pass_lengths: Callable[[], tuple[int, ...]] = field(repr=False, compare=False)
    pinned: bool = False

    @property
    def name(self) -> str:
        """The schema's name."""
        return self.layout.name

    @property
    def num_tokens(self) -> int:
        """Tokens whose states are stored."""
        return self.layout.num_tokens

    @property
    def pass_lengths(self) -> tuple[int, ...]:
        """The tokens of each pass through the model that encodes it where nothing of it is stored."""
        return self._find_pass_lengths()

    @property
    def keys(self) -> frozenset[SegmentKey]:
        """The keys of its segments."""
        return frozenset(segment.key for segment in self.layout.stored)


class LoadedSchemas:
    """Schemas by name, and their states in the store. Safe to use from many threads."""

    def __init__(self, encoder: ModuleEncoder) -> None:
        self._encoder = encoder
        self._schemas: dict[str, LoadedSchema] = {}
        self._lock = threading.RLock()

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
        self,
        layout: SchemaLayout,
        *,
        replace: bool,
        encode: bool,
        pin: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> LoadedSchema:
        """Encodes a schema and keeps it, in place of one of that name in one step. The same schema again is the one
        that is there; raises RequestError for another one under a name in use."""
        if (known := self._same(layout, replace, pin)) is not None:
            return known
        watch = Stopwatch(self._encoder.adapter.devices.wait)
        encoded = self._encoder.encode(layout, progress) if encode else 0
        num_bytes = layout.num_tokens * self._encoder.adapter.bytes_per_token
        encode_ms = watch.lap() if encoded else 0.0
        pass_lengths = partial(self._encoder.pass_lengths, layout)
        schema = LoadedSchema(layout, num_bytes, encoded, encode_ms, pass_lengths, pin)
        with self._lock:
            # Another thread may have loaded one meanwhile.
            if (known := self._same(layout, replace, pin)) is not None:
                return known
            if pin:
                self._encoder.store.pin(schema.keys)
            replaced = self._schemas.get(layout.name)
            self._schemas[layout.name] = schema
            if replaced is not None:
                self._let_go(replaced)
        if pin:
            # What is pinned is kept once it is in memory, so it is brought there.
            self._encoder.store.lease(schema.keys).close()
        return schema

    def unload(self, name: str) -> None:
        """Forgets a schema, and frees the memory of the states that no other one shares. Raises RequestError for an
        unknown name."""
        with self._lock:
            if name not in self._schemas:
                raise RequestError(f"no schema named {name!r} is loaded", hint=self._hint())
            self._let_go(self._schemas.pop(name))

    def _same(self, layout: SchemaLayout, replace: bool, pin: bool) -> LoadedSchema | None:
        """The loaded schema that serves as this one, if there is one. Raises RequestError where the name is taken."""
        with self._lock:
            known = self._schemas.get(layout.name)
            if known is None or replace:
                return None
            if known.layout != layout:
                raise RequestError(
                    f"a schema named {layout.name!r} is loaded already", hint="unload it first, or pass replace=True"
                )
            return known if known.pinned or not pin else None

    def _hint(self) -> str:
        return f"loaded are: {', '.join(sorted(self._schemas)) or 'none; call load_schema first'}"

    def _let_go(self, schema: LoadedSchema) -> None:
        if schema.pinned:
            self._encoder.store.unpin(schema.keys)
        kept: Set[SegmentKey] = frozenset().union(*(other.keys for other in self._schemas.values()))
        self._encoder.store.release(schema.keys - kept)
