"""The module encoder: passes through the model once, states into the store."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from itertools import accumulate

from promptcache.kv.arena import Arena
from promptcache.kv.block import KVBlock
from promptcache.layout.encoding import Segment
from promptcache.layout.key import SegmentKey
from promptcache.layout.layout import SchemaLayout
from promptcache.models.adapter import ModelAdapter
from promptcache.store.base import Store

logger = logging.getLogger(__name__)


class ModuleEncoder:
    """Fills a store with the states of a schema's segments."""

    def __init__(self, adapter: ModelAdapter, store: Store) -> None:
        self.adapter = adapter
        self.store = store

    def encode(self, layout: SchemaLayout, progress: Callable[[int, int], None] | None = None) -> int:
        """Encodes what the store lacks. Returns the number of tokens run through the model.

        `progress(done, total)` is called with tokens as passes end.
        """
        unique = _by_key(layout.stored)
        missing = self._passes(segment for segment in unique.values() if self.store.get(segment.key) is None)
        return self._fill(layout, missing, progress)[1]

    def blocks(self, layout: SchemaLayout, segments: Iterable[Segment]) -> tuple[dict[SegmentKey, KVBlock], int]:
        """The blocks of these segments, and the number of tokens that had to be run because the store lacked some."""
        found: dict[SegmentKey, KVBlock] = {}
        missing: list[Segment] = []
        for segment in segments:
            block = self.store.get(segment.key)
            if block is None:
                missing.append(segment)
            else:
                found[segment.key] = block
        passes = self._passes(missing)
        if passes:
            logger.info("schema %s: %d passes are not in the store and are encoded again", layout.name, len(passes))
        made, computed = self._fill(layout, passes, None)
        return {**found, **made}, computed

    @staticmethod
    def _passes(segments: Iterable[Segment]) -> list[int]:
        return sorted({segment.encoding_pass for segment in segments})

    def _fill(
        self, layout: SchemaLayout, passes: list[int], progress: Callable[[int, int], None] | None
    ) -> tuple[dict[SegmentKey, KVBlock], int]:
        """Runs passes and stores their segments, which lie side by side in one arena in the schema's order.

        They are stored when all have been encoded: a pass that fails leaves nothing behind.
        """
        segments = _by_key(segment for segment in layout.stored if segment.encoding_pass in passes)
        starts = accumulate((segment.length for segment in segments.values()), initial=0)
        slots = dict(zip(segments, starts, strict=False))
        total, done = sum(len(layout.passes[number].ids) for number in passes), 0
        arena: Arena | None = None
        made: dict[SegmentKey, KVBlock] = {}
        for number in passes:
            encoding_pass = layout.passes[number]
            cache = self.adapter.new_cache(len(encoding_pass.ids))
            self.adapter.forward(encoding_pass.ids, encoding_pass.positions, cache, None)
            for segment in segments.values():
                if segment.encoding_pass == number:
                    block = cache.view(segment.offset, segment.offset + segment.length)
                    arena = arena or Arena.like(block, sum(s.length for s in segments.values()))
                    made[segment.key] = arena.put(block, slots[segment.key])
            done += len(encoding_pass.ids)
            if progress is not None:
                progress(done, total)
        for key, block in made.items():
            self.store.put(key, block)
        return made, done


def _by_key(segments: Iterable[Segment]) -> dict[SegmentKey, Segment]:
    """The first segment of each key: two modules with the same text may have the same states."""
    found: dict[SegmentKey, Segment] = {}
    for segment in segments:
        found.setdefault(segment.key, segment)
    return found
