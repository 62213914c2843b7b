"""A store in host memory."""

from __future__ import annotations

import threading

from promptcache.kv.block import KVBlock
from promptcache.layout.key import SegmentKey


class HostStore:
    """Keeps every block until it is discarded. See `Store` for the contract."""

    def __init__(self) -> None:
        self._blocks: dict[SegmentKey, KVBlock] = {}
        self._lock = threading.Lock()

    def get(self, key: SegmentKey) -> KVBlock | None:
        """The block of that key, or None."""
        with self._lock:
            return self._blocks.get(key)

    def put(self, key: SegmentKey, block: KVBlock) -> None:
        """Stores a block unless the key has one."""
        with self._lock:
            self._blocks.setdefault(key, block)

    def discard(self, key: SegmentKey) -> None:
        """Drops a block if it is there."""
        with self._lock:
            self._blocks.pop(key, None)

    @property
    def num_bytes(self) -> int:
        """Bytes of all tensors held."""
        with self._lock:
            return sum(block.num_bytes for block in self._blocks.values())

    def __len__(self) -> int:
        with self._lock:
            return len(self._blocks)
