"""A tier in memory: the host's, or that of a device."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Sequence

import torch

from promptcache.kv.arena import Arena
from promptcache.kv.block import KVBlock
from promptcache.layout.encodings.key import SegmentKey
from promptcache.store.base import Blocks, Origin, TierStats
from promptcache.store.group import Group, grouped
from promptcache.store.lease import Lease
from promptcache.store.placement import beside, pinned

logger = logging.getLogger(__name__)


class MemoryTier:
    """See `Tier`. With leases and pins: what is leased or pinned is never evicted.

    Memory is given back by the arena, so arenas are evicted whole, and count whole while any block of theirs is here.
    `num_bytes` never exceeds `budget_bytes`. With `devices`, one a layer or one for all, blocks are copied there as
    they come; with `locked` to page-locked main memory. States that nobody used for `ttl` seconds are gone.
    """

    def __init__(
        self,
        name: str,
        budget_bytes: int,
        *,
        devices: Sequence[torch.device] = (),
        locked: bool = False,
        ttl: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self.budget_bytes = budget_bytes
        self._devices = tuple(devices)
        self._locked = locked
        self._ttl = ttl
        self._clock = clock
        self._groups: dict[SegmentKey, Group] = {}
        self._arenas: dict[Arena, Group] = {}
        self._leased_only: set[Group] = set()
        """Discarded while a request used them: not found any more, but their memory is not free yet."""
        self._pins: Counter[SegmentKey] = Counter()
        self._abandoned: deque[Group] = deque()
        self._ticks = itertools.count()
        self._hits = self._misses = self._evictions = self._num_bytes = 0
        self._lock = threading.Lock()

    @property
    def num_bytes(self) -> int:
        """Bytes held, those of discarded blocks that a request still uses included."""
        with self._lock:
            self._settle()
            return self._num_bytes

    @property
    def num_leases(self) -> int:
        """Holds that requests have."""
        with self._lock:
            self._settle()
            return sum(group.leases for group in {*self._groups.values(), *self._leased_only})

    def __len__(self) -> int:
        with self._lock:
            return len(self._groups)

    def get(self, keys: Iterable[SegmentKey]) -> dict[SegmentKey, KVBlock]:
        """See `Tier`."""
        with Lease() as lease:
            self.lease(keys, lease)
            return dict(lease)

    def lease(self, keys: Iterable[SegmentKey], lease: Lease) -> None:
        """Puts the blocks that are here into the lease, held for it."""
        with self._lock:
            self._settle()
            intact: dict[Group, bool] = {}
            for key in keys:
                group = self._groups.get(key)
                if group is not None and group not in intact:
                    intact[group] = self._usable(group)
                if group is None or not intact[group]:
                    self._misses += 1
                    continue
                self._hits += 1
                self._hold(group, [key], lease)

    def put(self, blocks: Blocks, origin: Origin) -> None:
        """See `Tier`. What had to go for it is lost; see `keep`."""
        self.keep(blocks, origin)

    def could_take(self, num_bytes: int) -> bool:
        """Whether there is room for so much, or would be without what nobody uses."""
        with self._lock:
            self._settle()
            going = (group.num_bytes for group in set(self._groups.values()) if self._may_go(group))
            return num_bytes <= self.budget_bytes - self._num_bytes + sum(going)

    def keep(self, blocks: Blocks, origin: Origin | None, lease: Lease | None = None) -> tuple[Blocks, list[Group]]:
        """As `put`; blocks that are here then are held for the lease. `origin` is None for what another tier has, too.

        Returns all the blocks as they are on this tier's device, and what had to go for them, to be demoted.
        """
        if self._locked:
            blocks = pinned(blocks)
        elif self._devices:
            blocks = beside(blocks, self._devices)
        evicted: list[Group] = []
        with self._lock:
            self._settle()
            for owner, members in grouped(blocks):
                new = {key: block for key, block in members.items() if key not in self._groups}
                if new and (group := self._group(owner, new, origin, evicted)) is not None:
                    group.blocks.update(new)
                    self._groups.update(dict.fromkeys(new, group))
                if lease is not None:
                    for key in members:
                        if (known := self._groups.get(key)) is not None:
                            self._hold(known, [key], lease)
        return blocks, evicted

    def contains(self, keys: Iterable[SegmentKey]) -> set[SegmentKey]:
        """See `Tier`."""
        with self._lock:
            return {key for key in keys if (group := self._groups.get(key)) is not None and self._usable(group)}

    def discard(self, keys: Collection[SegmentKey]) -> None:
        """See `Tier`. Requests that use them go on; until then they count."""
        with self._lock:
            self._settle()
            for key in keys:
                group = self._groups.pop(key, None)
                if group is not None:
                    del group.blocks[key]
                    if not group.blocks:
                        self._forget(group)

    def pin(self, keys: Iterable[SegmentKey]) -> None:
        """Keeps them from eviction, now and when they come, until `unpin` was called as often."""
        with self._lock:
            self._pins.update(keys)

    def unpin(self, keys: Iterable[SegmentKey]) -> None:
        """Takes back a `pin`."""
        with self._lock:
            self._pins.subtract(keys)
            self._pins = +self._pins

    def held(self) -> dict[SegmentKey, KVBlock]:
        """All blocks (a copy of the table); counts as no use."""
        with self._lock:
            return {key: group.blocks[key] for key, group in self._groups.items()}

    def stats(self) -> TierStats:
        """See `Tier`."""
        with self._lock:
            self._settle()
            counts = (self._hits, self._misses, self._evictions)
            return TierStats(len(self._groups), self._num_bytes, self.budget_bytes, *counts)

    def _group(self, owner: Arena | None, blocks: Blocks, origin: Origin | None, evicted: list[Group]) -> Group | None:
        """The group of an arena, or a new one that there is room for; None where there is none."""
        if owner is not None and (known := self._arenas.get(owner)) is not None:
            return known
        group = Group(self, owner, dict(blocks), origin)
        if not self._make_room(group.num_bytes, evicted):
            logger.warning(
                "the %s tier has no room for %d bytes of %s, which are used and not kept: its budget is %d, "
                "and the rest of it is in use or pinned",
                self.name,
                group.num_bytes,
                group.label,
                self.budget_bytes,
            )
            return None
        self._num_bytes += group.num_bytes
        group.used, group.touched = next(self._ticks), self._clock()
        if owner is not None:
            self._arenas[owner] = group
        return group

    def _make_room(self, wanted: int, evicted: list[Group]) -> bool:
        free = self.budget_bytes - self._num_bytes
        if free >= wanted:
            return True
        going: list[Group] = []
        for group in sorted(set(self._groups.values()), key=lambda each: each.used):
            if free >= wanted:
                break
            if self._may_go(group):
                going.append(group)
                free += group.num_bytes
        if free < wanted:
            return False
        for group in going:
            self._evictions += len(group.blocks)
            self._drop(group)
        evicted += going
        return True

    def _may_go(self, group: Group) -> bool:
        return not group.leases and not any(self._pins[key] for key in group.blocks)

    def _usable(self, group: Group) -> bool:
        """Whether a group may still be used; what may not is dropped."""
        if self._ttl is not None and self._clock() - group.touched > self._ttl:
            self._drop(group)
        elif not group.is_intact():
            logger.warning("the file that %s was read from has changed: they are dropped", group.label)
            self._drop(group)
        else:
            return True
        return False

    def _hold(self, group: Group, keys: Iterable[SegmentKey], lease: Lease) -> None:
        group.used, group.touched = next(self._ticks), self._clock()
        group.leases += 1
        lease.add({key: group.blocks[key] for key in keys}, group)

    def _drop(self, group: Group) -> None:
        for key in group.blocks:
            self._groups.pop(key, None)
        self._forget(group)

    def _forget(self, group: Group) -> None:
        if group.owner is not None:
            self._arenas.pop(group.owner, None)
        if group.leases:
            self._leased_only.add(group)
        else:
            self._num_bytes -= group.num_bytes

    def release(self, group: Group) -> None:
        """A hold less. For `Group`."""
        with self._lock:
            self._settle()
            self._end_lease(group)

    def abandon(self, group: Group) -> None:
        """A hold less, at the next occasion: this may run inside our own lock. For `Group`."""
        self._abandoned.append(group)

    def _settle(self) -> None:
        while self._abandoned:
            self._end_lease(self._abandoned.popleft())

    def _end_lease(self, group: Group) -> None:
        group.leases -= 1
        if not group.leases and group in self._leased_only:
            self._leased_only.remove(group)
            self._num_bytes -= group.num_bytes
