"""The tier on disk: the contract for every codec, and what a folder shared by processes needs."""

from __future__ import annotations

import json
import logging
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

from promptcache.errors import StoreError
from promptcache.kv.codec import codec
from promptcache.layout.encodings import key as key_module
from promptcache.store import header as header_module
from promptcache.store.disk import DiskTier
from promptcache.store.mapped import MappedArena
from tests.store.contract import BYTES_PER_TOKEN, ORIGIN, TierContract, arena, block, key, near

BUDGET = 1 << 30


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.safetensors"))


def disk(folder: Path, **options: object) -> DiskTier:
    return DiskTier(folder, options.pop("budget", BUDGET), codec("none"), **options)


class TestDiskTier(TierContract):
    @pytest.fixture
    def tier(self, tmp_path: Path) -> DiskTier:
        return DiskTier(tmp_path / "store", BUDGET, self.codec)


class TestDiskTierBf16(TestDiskTier):
    codec = codec("bf16")


class TestDiskTierInt8(TestDiskTier):
    codec = codec("int8")


def test_blocks_are_used_where_they_lie(tmp_path):
    blocks = arena(3, 5)
    disk(tmp_path).put(blocks, ORIGIN)
    tier = disk(tmp_path)
    first, second = list(blocks)
    one, two = tier.get([first])[first], tier.get([second])[second]
    assert isinstance(one.place[0], MappedArena) and one.place[0] is two.place[0]
    whole = one.keys[0].untyped_storage()
    assert (
        whole.data_ptr() == two.values[1].untyped_storage().data_ptr()
        and whole.nbytes() == files(tmp_path)[0].stat().st_size
    )
    assert not torch.equal(one.keys[0], two.keys[0][:, :3])


@pytest.mark.parametrize("name", ["none", "bf16", "int8"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_other_programs_can_read_a_file(tmp_path, name, dtype):
    DiskTier(tmp_path, BUDGET, codec(name)).put(arena(3, 5, dtype=dtype), ORIGIN)
    [path] = files(tmp_path)
    with safe_open(path, framework="pt") as file:
        facts = json.loads(file.metadata()["promptcache"])
        assert facts["origin"]["schema"] == "s" and facts["codec"] == name
        assert file.get_tensor("keys.1").shape == (2, 8, 8)
    assert not list(tmp_path.glob(".*"))


def test_another_process_finds_what_one_has_stored(tmp_path):
    tier = disk(tmp_path)
    code = (
        "import sys; from tests.store.contract import *; from promptcache.store.disk import DiskTier\n"
        "DiskTier(__import__('pathlib').Path(sys.argv[1]), 1 << 30, codec('none')).put(arena(3, 5), ORIGIN)"
    )
    assert tier.contains(arena(3, 5)) == set()
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, cwd=Path(__file__).parents[2])
    blocks = arena(3, 5)
    assert all(near(found, blocks[k], tier.codec) for k, found in tier.get(blocks).items())
    assert tier.contains(blocks) == set(blocks)
    disk(tmp_path).discard(list(blocks))
    assert tier.get(blocks) == {}


def test_the_same_put_by_two_is_one_file(tmp_path):
    first, second = disk(tmp_path), disk(tmp_path)
    assert first.contains(arena(4)) == second.contains(arena(4)) == set()
    first.put(arena(4), ORIGIN)
    before = files(tmp_path)[0].read_bytes()
    second._where.clear(), second._headers.clear()
    second.folder.write(header_packed(arena(4)))
    assert [path.read_bytes() for path in files(tmp_path)] == [before]


def header_packed(blocks):
    from promptcache.store.writing import Packed

    return Packed(blocks, ORIGIN, codec("none"))


def test_the_file_that_was_not_used_for_longest_goes_first(tmp_path):
    tier = disk(tmp_path)
    for number, name in enumerate("abc"):
        tier.put({key(name): block(number, 4)}, ORIGIN)
        [path] = set(files(tmp_path)) - {p for p in files(tmp_path) if p.stat().st_mtime < 10_000}
        os.utime(path, (number, number))
    assert tier.get([key("a")])
    tier.budget_bytes = sum(path.stat().st_size for path in files(tmp_path)) + 10
    tier.put({key("d"): block(3, 4)}, ORIGIN)
    there = tier.contains([key(name) for name in "abcd"])
    assert key("a") in there and key("d") in there and key("b") not in there
    assert sum(path.stat().st_size for path in files(tmp_path)) <= tier.budget_bytes
    assert tier.stats().evictions > 0


def test_what_is_larger_than_the_budget_is_not_kept(tmp_path, caplog):
    tier = disk(tmp_path, budget=1000)
    with caplog.at_level(logging.WARNING):
        tier.put({key("a"): block(1, 100)}, ORIGIN)
    assert "more than the disk tier may hold" in caplog.text and not files(tmp_path)


def test_time_to_live_begins_anew_with_each_use(tmp_path):
    now = [0.0]
    tier = disk(tmp_path, ttl=100.0, clock=lambda: now[0])
    tier.put({key("a"): block(1)}, ORIGIN)
    uses = files(tmp_path)[0].with_suffix(".uses")
    now[0] = files(tmp_path)[0].stat().st_mtime
    for _ in range(3):
        now[0] += 90
        assert tier.get([key("a")])
        os.utime(uses, (now[0], now[0]))
    assert uses.stat().st_size == 3
    now[0] += 110
    assert tier.contains([key("a")]) == set() and tier.get([key("a")]) == {}
    assert not files(tmp_path)


def test_a_use_elsewhere_counts_as_one(tmp_path):
    tier = disk(tmp_path, ttl=100.0)
    tier.put({key("a"): block(1)}, ORIGIN)
    os.utime(files(tmp_path)[0], (1, 1))
    tier.touch([key("a"), key("b")])
    assert tier.contains([key("a")])


def test_a_clock_that_was_moved_back_loses_nothing(tmp_path):
    tier = disk(tmp_path, ttl=100.0, clock=lambda: 1000.0)
    tier.put({key("a"): block(1)}, ORIGIN)
    assert tier.get([key("a")])
    assert tier.folder.files()[0].age == 0


def test_files_of_another_format_version_are_misses_and_stay(tmp_path, monkeypatch):
    for module in (key_module, header_module):
        monkeypatch.setattr(module, "FORMAT_VERSION", 99)
    disk(tmp_path).put({key("a"): block(1)}, ORIGIN)
    monkeypatch.undo()
    assert disk(tmp_path).get([key("a")]) == {}
    assert len(files(tmp_path)) == 1 and not disk(tmp_path).folder.files()[0].fault.damaged


def test_what_is_not_ours_is_left_alone(tmp_path):
    for name in ("model.safetensors", "notes.txt", "f" * 40 + ".bin"):
        (tmp_path / name).write_bytes(b"mine")
    tier = disk(tmp_path, budget=10 * BYTES_PER_TOKEN)
    tier.put({key("a"): block(1)}, ORIGIN)
    tier.put({key("b"): block(1)}, ORIGIN)
    assert {path.read_bytes() for path in tmp_path.iterdir() if path.name[0] in "mn"} == {b"mine"}


def test_a_path_that_is_no_folder_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="no folder"):
        disk(tmp_path / "file")


def test_fifty_small_blocks_take_little_more_than_their_tensors(tmp_path):
    tier = disk(tmp_path)
    blocks = arena(*[10] * 50)
    tier.put(blocks, ORIGIN)
    taken = sum(path.stat().st_blocks * 512 for path in tmp_path.iterdir())
    assert taken <= 1.1 * 500 * BYTES_PER_TOKEN


def test_a_head_that_lies_about_its_length(tmp_path, caplog):
    (tmp_path / ("0" * 40 + ".safetensors")).write_bytes(struct.pack("<Q", 1 << 60) + b"x" * 100)
    with caplog.at_level(logging.WARNING):
        assert disk(tmp_path).get([key("a")]) == {}
    assert "head is damaged" in caplog.text and not files(tmp_path)
