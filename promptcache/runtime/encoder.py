"""The module encoder: passes through the model once, states into the store."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate

from promptcache.kv.arena import Arena
from promptcache.kv.block import KVBlock
from promptcache.layout.encodings.encoding import Segment
from promptcache.layout.encodings.key import KeyContext, SegmentKey
from promptcache.layout.layout import SchemaLayout
from promptcache.models.adapter import ModelAdapter
from promptcache.runtime.claims import Claim, Claims, results
from promptcache.runtime.packing import PACKED_TOKENS, Pack, packs
from promptcache.store.base import Origin
from promptcache.store.lease import Lease
from promptcache.store.tiered import TieredStore

logger = logging.getLogger(__name__)

Progress = Callable[[int, int], None]


class ModuleEncoder:
    """Fills a store with the states of schemas' segments. What several threads want at once is encoded by one of them,
    and the others wait for it."""

    def __init__(self, adapter: ModelAdapter, store: TieredStore, context: KeyContext) -> None:
        self.adapter = adapter
        self.store = store
        self.context = context
        self._claims = Claims()

    def encode(self, layout: SchemaLayout, progress: Progress | None = None) -> int:
        """Encodes what the store lacks. Returns the number of tokens run through the model.

        `progress(done, total)` is called with tokens as passes end. A pass that fails leaves nothing; arenas that were
        stored before it stay, so that a long schema goes on where it was.
        """
        work = _Work(layout, progress)
        wanted = {segment.key for segment in layout.stored}
        missing = wanted - self.store.contains(wanted)
        work.expect(sum(self._pass_lengths(work, missing)))
        while missing:
            arena = next(self._arenas(work, work.passes(missing)))
            with Lease() as lease:
                self._fill(work, missing & {key for number in arena for key in work.claim(number)}, lease)
                # What the store has no room for would be missing for ever.
                wanted -= lease.keys()
            missing = wanted - self.store.contains(wanted)
        return work.done

    def pass_lengths(self, layout: SchemaLayout) -> tuple[int, ...]:
        """The tokens of each pass through the model that `encode` makes where nothing is stored."""
        work = _Work(layout, None)
        return tuple(self._pass_lengths(work, {segment.key for segment in layout.stored}))

    def blocks(self, layout: SchemaLayout, segments: Iterable[Segment]) -> tuple[Lease, int]:
        """The blocks of these segments, held for a request, and the number of tokens that had to be run because the
        store lacked some."""
        work = _Work(layout, None)
        wanted = list(dict.fromkeys(segment.key for segment in segments))
        lease = self.store.lease(wanted)
        while missing := {key for key in wanted if key not in lease}:
            logger.info("schema %s: %d segments are not in the store and are encoded", layout.name, len(missing))
            self._fill(work, missing, lease)
        return lease, work.done

    def _fill(self, work: _Work, missing: set[SegmentKey], lease: Lease) -> None:
        """Adds missing blocks to the lease: those that nobody else is encoding by running their passes, the others when
        they are there. Those of a run that failed elsewhere are still missing afterwards."""
        origin = self._origin(work.layout)
        self.store.explain_misses(origin)
        passes = {work.claim(number): number for number in work.passes(missing)}
        with self._claims.taken(passes) as taken:
            # Another thread may have finished them just before they became ours.
            lease.join(self.store.lease(missing))
            ours = sorted(passes[claim] for claim in taken.ours if not missing.isdisjoint(claim - lease.keys()))
            made: dict[SegmentKey, KVBlock] = {}
            for numbers in self._arenas(work, ours):
                with self.store.put(self._run(work, numbers), origin) as stored:
                    made.update(stored)
                    lease.join(stored)
            taken.done.set_result(made)
        for others in results(taken.theirs):
            lease.join(self.store.lease(missing - lease.keys()))
            lease.add({key: others[key] for key in missing & others.keys() - lease.keys()})

    def _arenas(self, work: _Work, passes: Iterable[int]) -> Iterator[list[int]]:
        """Passes in groups that share an arena."""
        room, numbers = 0, list[int]()
        for number in passes:
            size = sum(segment.length for segment in work.segments(number)) * self.adapter.bytes_per_token
            if numbers and size > room:
                yield numbers
                numbers = []
            room = (room if numbers else self.store.largest_arena) - size
            numbers.append(number)
        if numbers:
            yield numbers

    def _run(self, work: _Work, passes: Sequence[int]) -> dict[SegmentKey, KVBlock]:
        """Runs passes. Their segments lie side by side in one arena, in the schema's order."""
        segments = work.segments(*passes)
        starts = accumulate((segment.length for segment in segments), initial=0)
        slots = {segment.key: start for segment, start in zip(segments, starts, strict=False)}
        arena: Arena | None = None
        made: dict[SegmentKey, KVBlock] = {}
        for pack in self._packs(work, passes):
            cache = self.adapter.new_cache(len(pack.ids))
            among = pack.visibility(self.adapter.dtype)
            mask = None if among is None else self.adapter.position_mask(pack.positions, pack.positions, among)
            self.adapter.forward(pack.ids, pack.positions, cache, mask)
            for segment in work.segments(*pack.passes):
                slot = pack.slot(segment.encoding_pass, segment.offset)
                block = cache.view(slot, slot + segment.length)
                arena = arena or Arena.like(block, sum(s.length for s in segments))
                made[segment.key] = arena.put(block, slots[segment.key])
            work.finished(len(pack.ids))
        return made

    def _pass_lengths(self, work: _Work, missing: set[SegmentKey]) -> Iterator[int]:
        for numbers in self._arenas(work, work.passes(missing)):
            yield from (len(pack.ids) for pack in self._packs(work, numbers))

    def _packs(self, work: _Work, passes: Iterable[int]) -> Iterator[Pack]:
        """Passes as they run. A model that counts slots heeds no mask, and runs each by itself."""
        most = 0 if self.adapter.counts_slots else PACKED_TOKENS
        each = ((number, work.layout.passes[number], work.only_seen(number)) for number in passes)
        return packs(each, most)

    def _origin(self, layout: SchemaLayout) -> Origin:
        return Origin(layout.name, self.adapter.label, layout.encoding, layout.policy, self.context)


class _Work:
    """What a call has to encode of a schema, and how far it is."""

    def __init__(self, layout: SchemaLayout, progress: Progress | None) -> None:
        self.layout = layout
        self.done = self._total = 0
        self._progress = progress
        self._segments: dict[SegmentKey, Segment] = {}
        for segment in layout.stored:
            # Two modules with the same text may have the same states: the first one's are taken.
            self._segments.setdefault(segment.key, segment)
        self._order = {key: place for place, key in enumerate(self._segments)}
        self._of_pass: dict[int, list[Segment]] = {}
        for segment in self._segments.values():
            self._of_pass.setdefault(segment.encoding_pass, []).append(segment)

    def passes(self, keys: Iterable[SegmentKey]) -> list[int]:
        """The passes that make these segments."""
        return sorted({self._segments[key].encoding_pass for key in keys})

    def segments(self, *passes: int) -> list[Segment]:
        """The segments that are taken from these passes, in the schema's order."""
        found = [segment for number in passes for segment in self._of_pass[number]]
        return sorted(found, key=lambda segment: self._order[segment.key])

    def claim(self, number: int) -> Claim:
        """What running a pass makes."""
        return frozenset(segment.key for segment in self.segments(number))

    def only_seen(self, number: int) -> int:
        """How many tokens at the front of a pass are not taken from it."""
        return min(segment.offset for segment in self.segments(number))

    def expect(self, tokens: int) -> None:
        """Says how many tokens there are to run, for the progress."""
        self._total = tokens

    def finished(self, tokens: int) -> None:
        """So many tokens were run."""
        self.done += tokens
        if self._progress is not None:
            self._progress(self.done, self._total)
