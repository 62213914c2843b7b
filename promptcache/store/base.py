"""Where KV blocks rest: the contract of a tier."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from promptcache.kv.block import KVBlock
from promptcache.layout.encodings.key import KeyContext, SegmentKey

Blocks = Mapping[SegmentKey, KVBlock]


@dataclass(frozen=True)
class Origin:
    """Where blocks come from, for people who look at a store, and to say why a block was not found. No part of their
    identity: that is the key alone."""

    schema: str
    model: str
    encoding: str
    layout: str
    context: KeyContext


@dataclass(frozen=True)
class TierStats:
    """`hits` and `misses` count blocks asked for since the engine was made, `evictions` those that had to go."""

    blocks: int
    num_bytes: int
    budget_bytes: int
    hits: int
    misses: int
    evictions: int


class Tier(Protocol):
    """Blocks by key, within a byte budget; the least recently used go first. Safe to use from many threads.

    A block that was put or handed out is never written to, and its tensors stay valid for whoever holds it, whatever
    becomes of it here. Blocks that are put together lie side by side, and do so again when they are got together. A
    miss is a key that is not in the answer: never an error, never another block. What a tier cannot take it leaves,
    with a line in the log; the block is then encoded again when it is wanted.
    """

    name: str

    def get(self, keys: Iterable[SegmentKey]) -> dict[SegmentKey, KVBlock]:
        """The blocks that are here."""

    def put(self, blocks: Blocks, origin: Origin) -> None:
        """Stores blocks. A key that is here already keeps its block: equal keys have equal states."""

    def contains(self, keys: Iterable[SegmentKey]) -> set[SegmentKey]:
        """Which of them are here, as far as can be told without reading their states."""

    def discard(self, keys: Collection[SegmentKey]) -> None:
        """Forgets blocks, those that are here."""

    def stats(self) -> TierStats:
        """Figures for people."""
