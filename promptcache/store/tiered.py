"""The whole store: tiers from the nearest to the farthest, as one."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from promptcache.kv.block import KVBlock
from promptcache.kv.codec import Codec, settle
from promptcache.layout.encodings.key import SegmentKey
from promptcache.store.base import Blocks, Origin, Tier, TierStats
from promptcache.store.disk import DiskTier
from promptcache.store.lease import Lease
from promptcache.store.memory import MemoryTier
from promptcache.store.misses import explain
from promptcache.store.placement import by_arena, in_order, side_by_side

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class StoreStats:
    """`tiers` by name, the nearest first; `leases` are the holds of requests under way."""

    tiers: dict[str, TierStats]
    leases: int


class TieredStore:
    """Reads through and promotes: what is found in a farther tier is held in the nearest from then on. What is put goes
    to the nearest tier, and to the disk at once, so that it outlives the process. What a memory tier has no room for is
    demoted to the next one, or stays there, and is used from there. Safe to use from many threads.
    """

    def __init__(self, memory: Sequence[MemoryTier], disk: DiskTier | None, codec: Codec) -> None:
        """`memory`: at least one tier, that beside the model first."""
        self.codec = codec
        self._memory = tuple(memory)
        self._disk = disk
        self._tiers: tuple[Tier, ...] = (*memory, *((disk,) if disk is not None else ()))

    @property
    def largest_arena(self) -> int:
        """Bytes that blocks which lie side by side should take at most: memory is given back by the arena, so a budget
        should hold several."""
        return min(256 << 20, self._memory[0].budget_bytes // 4)

    def lease(self, keys: Iterable[SegmentKey]) -> Lease:
        """The blocks that are in any tier, held for a request: beside the model, those that it has room for, the others
        in main memory."""
        wanted = list(dict.fromkeys(keys))
        lease = Lease()
        self._memory[0].lease(wanted, lease)
        if self._disk is not None and lease:
            self._disk.touch(lease)
        for tier in self._tiers[1:]:
            missing = [key for key in wanted if key not in lease]
            if missing and (found := tier.get(missing)):
                for members in by_arena(found):
                    self._keep(0, members, None, lease)
        return lease

    def put(self, blocks: Blocks, origin: Origin) -> Lease:
        """Stores blocks that were just encoded. Returns them as they will be read from now on, held for a request."""
        if any(not self.codec.is_plain(block.keys[0].dtype) for block in blocks.values() if block.keys):
            blocks = side_by_side([(key, settle(self.codec, block)) for key, block in in_order(blocks)])
        lease = Lease()
        if self._disk is not None:
            self._disk.put(blocks, origin)
        self._keep(0, blocks, origin, lease)
        return lease

    def get(self, key: SegmentKey) -> KVBlock | None:
        """One block, held by nobody; None where no tier has it."""
        with self.lease([key]) as lease:
            return lease.get(key)

    def contains(self, keys: Iterable[SegmentKey]) -> set[SegmentKey]:
        """Which of them are in any tier, as far as can be told without reading their states."""
        keys = set(keys)
        found = self._memory[0].contains(keys)
        for tier in self._tiers[1:]:
            if len(found) < len(keys):
                found |= tier.contains(keys - found)
        return found

    def kept(self, keys: Iterable[SegmentKey]) -> set[SegmentKey]:
        """Which of them outlive the process."""
        return self._disk.contains(keys) if self._disk is not None else set()

    def release(self, keys: Collection[SegmentKey]) -> None:
        """Frees the memory that blocks take. What is on disk stays there for the next time."""
        for tier in self._memory:
            tier.discard(keys)

    def pin(self, keys: Collection[SegmentKey]) -> None:
        """Keeps blocks in memory once they are there, until `unpin` was called as often."""
        for tier in self._memory:
            tier.pin(keys)

    def unpin(self, keys: Collection[SegmentKey]) -> None:
        """Takes back a `pin`."""
        for tier in self._memory:
            tier.unpin(keys)

    def held(self) -> dict[SegmentKey, KVBlock]:
        """All blocks beside the model (a copy of the table)."""
        return self._memory[0].held()

    def explain_misses(self, origin: Origin) -> None:
        """Says in the log, at debug level, why what is stored of a schema does not serve."""
        if self._disk is not None and logger.isEnabledFor(logging.DEBUG):
            explain(origin, self._disk.headers())

    def stats(self) -> StoreStats:
        """Blocks, bytes, budgets, hits, misses and evictions of each tier."""
        tiers = {tier.name: tier.stats() for tier in self._tiers}
        return StoreStats(tiers, sum(tier.num_leases for tier in self._memory))

    @property
    def num_bytes(self) -> int:
        """Bytes held in memory."""
        return sum(tier.num_bytes for tier in self._memory)

    def __len__(self) -> int:
        return len(self._memory[0])

    def _keep(self, number: int, blocks: Blocks, origin: Origin | None, lease: Lease | None) -> None:
        """Puts blocks into a memory tier; what had to go, or found no room, into the next one."""
        tier, last = self._memory[number], number + 1 == len(self._memory)
        here = tier.contains(blocks)
        if not last and not tier.could_take(sum(block.num_bytes for key, block in blocks.items() if key not in here)):
            self._keep(number + 1, blocks, origin, lease)
            return
        placed, evicted = tier.keep(blocks, origin, lease)
        if lease is not None:
            lease.add({key: block for key, block in placed.items() if key not in lease})
        for group in evicted:
            if not last:
                self._keep(number + 1, group.blocks, group.origin, None)
            elif self._disk is not None and group.origin is not None:
                self._disk.put(group.blocks, group.origin)
