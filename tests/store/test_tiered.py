"""The tiers together: reading through, promotion, demotion, and what outlives what."""

from __future__ import annotations

import pytest
import torch

from promptcache.kv.codec import codec
from promptcache.store import writing
from promptcache.store.disk import DiskTier
from promptcache.store.mapped import MappedArena
from promptcache.store.memory import MemoryTier
from promptcache.store.tiered import TieredStore
from tests.store.contract import BYTES_PER_TOKEN, ORIGIN, arena, near

PLAIN = codec("none")
CPU = (torch.device("cpu"),)


def store(folder=None, *, device=None, host=1000, used=PLAIN) -> TieredStore:
    """Budgets in tokens. The device is one in name only."""
    tiers = [MemoryTier("host", host * BYTES_PER_TOKEN, devices=CPU)]
    if device is not None:
        tiers.insert(0, MemoryTier("device", device * BYTES_PER_TOKEN, devices=CPU))
    return TieredStore(tiers, DiskTier(folder, 1 << 30, used) if folder else None, used)


def tokens(made: TieredStore) -> dict[str, int]:
    return {name: tier.num_bytes // BYTES_PER_TOKEN for name, tier in made.stats().tiers.items() if name != "disk"}


def test_what_the_device_has_no_room_for_is_demoted_and_promoted_again():
    made, first, second = store(device=10), arena(4, 4), arena(6, seed=50)
    made.put(first, ORIGIN).close()
    assert tokens(made) == {"device": 8, "host": 0}
    made.put(second, ORIGIN).close()
    assert tokens(made) == {"device": 6, "host": 8}
    with made.lease(first) as lease:
        assert all(near(lease[key], first[key], PLAIN) for key in first)
        assert tokens(made)["device"] == 8
        assert made.stats().leases == 2
    assert made.contains({**first, **second}) == {*first, *second}
    assert made.stats().tiers["device"].evictions == 3


def test_what_the_device_cannot_take_stays_in_main_memory_and_is_used_from_there(caplog):
    made, first, second, large = store(device=10), arena(4, 4), arena(6, seed=50), arena(12, 3, seed=100)
    held = made.put(first, ORIGIN)
    with made.put(second, ORIGIN) as stored:
        # The device is full of what is in use: nothing is copied there, and nothing is lost.
        assert tokens(made) == {"device": 8, "host": 6} and all(near(stored[key], second[key], PLAIN) for key in second)
        with made.lease([*first, *second]) as lease:
            assert lease.keys() == {*first, *second} and tokens(made) == {"device": 8, "host": 6}
            assert made.stats().leases == 2 + 1 + 3
    held.close()
    with made.lease(second):
        assert tokens(made) == {"device": 6, "host": 14}
    made.put(large, ORIGIN).close()
    assert tokens(made) == {"device": 6, "host": 29} and made.contains(large) == set(large)
    assert made.stats().leases == 0 and not caplog.records


def test_what_is_pinned_stays_in_whichever_memory_it_is():
    made, first, large = store(device=10, host=20), arena(4, 4), arena(12, seed=50)
    made.pin([*first, *large])
    for blocks in (first, large, arena(12, seed=100), arena(7, seed=150)):
        made.put(blocks, ORIGIN).close()
    assert made.contains({**first, **large}) == {*first, *large}
    made.unpin([*first, *large])
    for blocks in (arena(9, seed=200), arena(19, seed=250)):
        made.put(blocks, ORIGIN).close()
    assert not made.contains({**first, **large})


def test_what_the_host_has_no_room_for_is_on_disk_and_is_mapped(tmp_path):
    made, first, second = store(tmp_path, host=10), arena(4, 4), arena(6, seed=50)
    for blocks in (first, second):
        made.put(blocks, ORIGIN).close()
    assert tokens(made) == {"host": 6}
    with made.lease(first) as lease:
        assert all(isinstance(block.place[0], MappedArena) for block in lease.values())
    assert tokens(made) == {"host": 8} and len(made) == 2


def test_what_could_not_be_written_is_tried_again_when_it_is_evicted(tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    made, first = store(tmp_path, host=10), arena(4, 4)
    with monkeypatch.context() as patch:
        patch.setattr(writing.os, "fsync", full)
        made.put(first, ORIGIN).close()
    assert made.kept(first) == set()
    made.put(arena(6, seed=50), ORIGIN).close()
    assert made.kept(first) == set(first)


@pytest.mark.parametrize("name", ["none", "bf16", "int8"])
def test_the_first_use_is_that_of_every_later_one(tmp_path, name):
    used, blocks = codec(name), arena(4, 70)
    with store(tmp_path, used=used).put(blocks, ORIGIN) as first, store(tmp_path, used=used).lease(blocks) as later:
        for key in blocks:
            assert near(first[key], blocks[key], used)
            for left, right in zip(first[key].keys, later[key].keys, strict=True):
                assert torch.equal(left, right)


def test_releasing_frees_memory_and_keeps_files(tmp_path):
    made, blocks = store(tmp_path, device=100), arena(4, 4)
    made.put(blocks, ORIGIN).close()
    made.release(set(blocks))
    assert made.num_bytes == 0 and made.kept(blocks) == made.contains(blocks) == set(blocks)


def test_fifty_small_modules_take_no_more_memory_than_their_tensors():
    made = store()
    made.put(arena(*[10] * 50), ORIGIN).close()
    assert made.num_bytes == 500 * BYTES_PER_TOKEN
