"""Where KV blocks rest: the contract of a store."""

from __future__ import annotations

from typing import Protocol

from promptcache.kv.block import KVBlock
from promptcache.layout.key import SegmentKey


class Store(Protocol):
    """Blocks by key. Safe to use from many threads.

    A block is handed over for good: whoever puts it or gets it never writes to its tensors. A miss is `None`, never an
    error, and means that the block has to be encoded again.
    """

    def get(self, key: SegmentKey) -> KVBlock | None:
        """The block of that key, or None."""

    def put(self, key: SegmentKey, block: KVBlock) -> None:
        """Stores a block; a key that is there already keeps its block (equal keys have equal states)."""

    def discard(self, key: SegmentKey) -> None:
        """Drops a block if it is there. A request that holds it already goes on with it."""

    @property
    def num_bytes(self) -> int:
        """Bytes of all tensors held."""
