"""Conversations seen before, so that the next turn of any of them computes only what is new."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from itertools import chain

from promptcache.kv.block import KVBlock
from promptcache.layout.encodings.encoding import Segment
from promptcache.layout.encodings.key import SegmentKey
from promptcache.layout.known import common_prefix
from promptcache.runtime.states.computed import Known


class ChatMemory:
    """Token sequences from position 0 with their states, within a byte budget; the least recently used goes first.

    Safe to use from many threads. A request that was handed states goes on with them whatever is forgotten meanwhile.
    """

    def __init__(self, budget_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self._chains: OrderedDict[tuple[int, ...], tuple[Segment, ...]] = OrderedDict()
        self._blocks: dict[SegmentKey, KVBlock] = {}
        self._lock = threading.Lock()

    @property
    def num_bytes(self) -> int:
        """Bytes held."""
        with self._lock:
            return sum(block.num_bytes for block in self._blocks.values())

    def longest(self, ids: Sequence[int]) -> Known:
        """The known sequence that shares the longest prefix with these ids, as segments from position 0."""
        ids = tuple(ids)
        with self._lock:
            best = max(self._chains, key=lambda known: common_prefix(known, ids), default=())
            if not common_prefix(best, ids):
                return Known()
            self._chains.move_to_end(best)
            segments = self._chains[best]
            return Known({0: list(segments)}, {segment.key: self._blocks[segment.key] for segment in segments})

    def add(self, known: Known) -> None:
        """Keeps the sequence that starts at 0, and drops those that it continues. One larger than the whole budget is
        not kept."""
        segments = tuple(known.chains.get(0, ()))
        ids = tuple(chain.from_iterable(segment.ids for segment in segments))
        if not ids or sum(known.blocks[segment.key].num_bytes for segment in segments) > self.budget_bytes:
            return
        with self._lock:
            for other in [other for other in self._chains if other == ids[: len(other)]]:
                del self._chains[other]
            self._chains[ids] = segments
            self._blocks.update((segment.key, known.blocks[segment.key]) for segment in segments)
            self._drop_unused()
            while sum(block.num_bytes for block in self._blocks.values()) > self.budget_bytes:
                self._chains.popitem(last=False)
                self._drop_unused()

    def _drop_unused(self) -> None:
        used = {segment.key for segments in self._chains.values() for segment in segments}
        for key in self._blocks.keys() - used:
            del self._blocks[key]
