"""The module encoder: passes through the model once, states into the store."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

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
        missing = self._passes(s for s in layout.segments.values() if self.store.get(s.key) is None)
        total = sum(len(layout.passes[number].ids) for number in missing)
        done = 0
        for number in sorted(missing):
            for key, block in self._run(layout, number).items():
                self.store.put(key, block)
            done += len(layout.passes[number].ids)
            if progress is not None:
                progress(done, total)
        return done

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
        computed = 0
        for number in sorted(self._passes(missing)):
            logger.info("schema %s: pass %d is not in the store and is encoded again", layout.name, number)
            made = self._run(layout, number)
            found.update(made)
            for key, block in made.items():
                self.store.put(key, block)
            computed += len(layout.passes[number].ids)
        return found, computed

    @staticmethod
    def _passes(segments: Iterable[Segment]) -> set[int]:
        return {segment.encoding_pass for segment in segments}

    def _run(self, layout: SchemaLayout, number: int) -> dict[SegmentKey, KVBlock]:
        """One causal forward pass; each segment gets its own copy of its slots."""
        made = layout.passes[number]
        cache = self.adapter.new_cache(len(made.ids))
        self.adapter.forward(made.ids, made.positions, cache, None)
        return {
            segment.key: cache.view(segment.offset, segment.offset + segment.length).copy()
            for segment in layout.segments.values()
            if segment.encoding_pass == number
        }
