"""The tiers in memory: the contract, budgets, leases, pins."""

from __future__ import annotations

import gc
import logging
import random

import pytest
import torch

from promptcache.store.lease import Lease
from promptcache.store.memory import MemoryTier
from tests.store.contract import BYTES_PER_TOKEN, ORIGIN, TierContract, arena, block, key


class TestHostTier(TierContract):
    @pytest.fixture
    def tier(self) -> MemoryTier:
        return MemoryTier("host", 1 << 20, devices=(torch.device("cpu"),))


class TestLockedHostTier(TierContract):
    @pytest.fixture
    def tier(self) -> MemoryTier:
        return MemoryTier("host", 1 << 20, locked=True)


@pytest.mark.gpu
class TestDeviceTier(TierContract):
    @pytest.fixture
    def tier(self) -> MemoryTier:
        return MemoryTier("device", 1 << 20, devices=(torch.device("cuda"),))


def tier_for(tokens: int, **options: object) -> MemoryTier:
    return MemoryTier("host", tokens * BYTES_PER_TOKEN, **options)


def test_bytes_are_those_of_arenas_while_a_block_of_them_is_there():
    tier, blocks = tier_for(100), arena(3, 5)
    tier.put(blocks, ORIGIN)
    assert tier.num_bytes == 8 * BYTES_PER_TOKEN
    tier.discard(list(blocks)[:1])
    assert tier.num_bytes == 8 * BYTES_PER_TOKEN  # its memory is not free
    tier.discard(list(blocks)[1:])
    assert tier.num_bytes == 0


def test_the_least_recently_used_arena_goes_first():
    tier = tier_for(10)
    arenas = [arena(2, 2, seed=10 * n) for n in range(3)]
    tier.put(arenas[0], ORIGIN)
    tier.put(arenas[1], ORIGIN)
    tier.get(list(arenas[0])[:1])
    tier.put(arenas[2], ORIGIN)
    assert [len(tier.contains(blocks)) for blocks in arenas] == [2, 0, 2]
    assert tier.stats().evictions == 2 and tier.num_bytes == 8 * BYTES_PER_TOKEN


def test_what_is_leased_stays(caplog):
    tier = tier_for(5)
    tier.put({key("a"): block(1, 4)}, ORIGIN)
    with Lease() as lease:
        tier.lease([key("a")], lease)
        with caplog.at_level(logging.WARNING):
            tier.put({key("b"): block(2, 4)}, ORIGIN)
        assert tier.contains([key("a"), key("b")]) == {key("a")}
        assert "used and not kept" in caplog.text
        assert tier.num_leases == 1
    assert tier.num_leases == 0
    tier.put({key("b"): block(2, 4)}, ORIGIN)
    assert tier.contains([key("a"), key("b")]) == {key("b")}


def test_nothing_is_evicted_in_vain():
    tier = tier_for(10)
    tier.put({key("a"): block(1, 4)}, ORIGIN)
    tier.put({key("huge"): block(2, 11)}, ORIGIN)
    assert tier.contains([key("a"), key("huge")]) == {key("a")}


def test_an_abandoned_lease_ends_and_a_closed_one_ends_once():
    tier, lease = tier_for(10), Lease()
    tier.put({key("a"): block(1)}, ORIGIN)
    tier.lease([key("a"), key("a")], lease)
    assert tier.num_leases == 2
    del lease
    assert tier.num_leases == 0
    again = Lease()
    tier.lease([key("a")], again)
    again.close()
    again.close()
    del again
    gc.collect()
    assert tier.num_leases == 0


def test_what_is_discarded_in_use_counts_until_it_is_given_back():
    tier, lease = tier_for(10), Lease()
    tier.put({key("a"): block(1, 6)}, ORIGIN)
    tier.lease([key("a")], lease)
    tier.discard([key("a")])
    assert tier.get([key("a")]) == {} and tier.num_bytes == 6 * BYTES_PER_TOKEN
    tier.put({key("b"): block(2, 6)}, ORIGIN)
    assert tier.contains([key("b")]) == set()
    lease.close()
    assert tier.num_bytes == 0 and tier.num_leases == 0


def test_what_is_pinned_stays():
    tier = tier_for(5)
    tier.pin([key("a")])
    tier.pin([key("a")])
    tier.put({key("a"): block(1, 4)}, ORIGIN)
    tier.unpin([key("a")])
    tier.put({key("b"): block(2, 4)}, ORIGIN)
    assert tier.contains([key("a")]) == {key("a")}
    tier.unpin([key("a")])
    tier.put({key("b"): block(2, 4)}, ORIGIN)
    assert tier.contains([key("a"), key("b")]) == {key("b")}


def test_time_to_live_begins_anew_with_each_use():
    now = [0.0]
    tier = tier_for(10, ttl=10.0, clock=lambda: now[0])
    tier.put({key("a"): block(1)}, ORIGIN)
    for _ in range(3):
        now[0] += 9
        assert tier.get([key("a")])
    now[0] += 11
    assert tier.contains([key("a")]) == set() and tier.get([key("a")]) == {}
    assert tier.num_bytes == 0


def test_copies_go_to_the_device_side_by_side():
    tier = MemoryTier("device", 1 << 20, devices=(torch.device("meta"),))
    blocks = arena(3, 5)
    tier.put(blocks, ORIGIN)
    found = tier.get(blocks)
    assert all(states.device.type == "meta" for b in found.values() for states in (*b.keys, *b.values))
    assert len({id(b.place[0]) for b in found.values()}) == 1 and tier.num_bytes == 8 * BYTES_PER_TOKEN


def test_locked_memory_is_taken_in_powers_of_two_and_counts_so(caplog):
    tier, blocks = MemoryTier("host", 16 * BYTES_PER_TOKEN, locked=True), arena(3, 2)
    tier.put(blocks, ORIGIN)
    assert tier.num_bytes == 8 * BYTES_PER_TOKEN
    found = tier.get(blocks)
    assert all(torch.equal(found[key].keys[0], block.keys[0]) for key, block in blocks.items())
    # What is locked already is taken as it is.
    again = MemoryTier("host", 1 << 20, locked=True)
    again.put(found, ORIGIN)
    assert all(again.get(found)[key].keys[0].data_ptr() == block.keys[0].data_ptr() for key, block in found.items())
    tier.put(arena(9, seed=100), ORIGIN)
    assert tier.num_bytes == 16 * BYTES_PER_TOKEN and not tier.get(blocks)


def test_random_uses_never_exceed_the_budget():
    draw, tier, leases = random.Random(7), tier_for(40), []
    pinned: list[object] = []
    for step in range(1500):
        seed = 100 * draw.randrange(12)
        blocks = arena(*(draw.randrange(1, 9) for _ in range(draw.randrange(1, 4))), seed=seed)
        match draw.randrange(6):
            case 0 | 1:
                lease = Lease()
                tier.keep(blocks, ORIGIN, lease)
                leases.append(lease)
            case 2:
                tier.get(blocks)
            case 3:
                tier.discard(list(blocks)[:1])
            case 4 if pinned:
                tier.unpin([pinned.pop()])
            case 5 if step % 7 == 0:
                pinned.append(next(iter(blocks)))
                tier.pin(pinned[-1:])
        while len(leases) > 3:
            leases.pop(draw.randrange(len(leases))).close()
        assert 0 <= tier.num_bytes <= tier.budget_bytes
    for lease in leases:
        lease.close()
    tier.unpin(pinned)
    tier.discard(list(tier.held()))
    assert tier.num_bytes == tier.num_leases == len(tier) == 0
