"""What may befall a file: each ends as a miss with a line in the log, and the next put mends it."""

from __future__ import annotations

import logging
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from promptcache.kv.codec import codec
from promptcache.store import writing
from promptcache.store.disk import DiskTier
from tests.store.contract import ORIGIN, arena, near
from tests.store.test_disk import BUDGET, disk, files

BLOCKS = arena(3, 5, 40)


def serves(tier: DiskTier) -> set[object]:
    """The keys that are found, all of them right."""
    found = tier.get(BLOCKS)
    assert all(near(found[key], BLOCKS[key], tier.codec) for key in found)
    return set(found)


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    disk(tmp_path).put(BLOCKS, ORIGIN)
    return files(tmp_path)[0]


@pytest.mark.parametrize("known", [False, True], ids=["before it is known", "after"])
@pytest.mark.parametrize("left", [0, 1, 0.5, -1])
def test_a_file_that_was_cut(stored, left, known, caplog):
    tier = disk(stored.parent)
    if known:
        assert tier.contains(BLOCKS) == set(BLOCKS)
    size = stored.stat().st_size
    os.truncate(stored, int(size * left) if isinstance(left, float) else left % size)
    with caplog.at_level(logging.WARNING):
        assert serves(tier) == set()
    assert "is damaged and dropped" in caplog.text and not stored.exists()
    tier.put(BLOCKS, ORIGIN)
    assert serves(tier) == serves(disk(stored.parent)) == set(BLOCKS)


def test_every_flipped_byte_is_noticed(stored):
    data = stored.read_bytes()
    draw = random.Random(3)
    places = {*range(16), len(data) - 1, *(draw.randrange(len(data)) for _ in range(200))}
    for place in sorted(places):
        flipped = bytearray(data)
        flipped[place] ^= 1 << draw.randrange(8)
        stored.write_bytes(flipped)
        found = serves(disk(stored.parent))
        assert found != set(BLOCKS), f"byte {place} is not checked"
        stored.write_bytes(data)
    assert serves(disk(stored.parent)) == set(BLOCKS)


def test_damage_to_one_block_is_a_miss_of_that_one_where_it_is_read_alone(stored, caplog):
    data = bytearray(stored.read_bytes())
    data[-1] ^= 1
    stored.write_bytes(data)
    tier, keys = disk(stored.parent), list(BLOCKS)
    assert tier.get(keys[:1]).keys() == {keys[0]}
    with caplog.at_level(logging.WARNING):
        assert tier.get(keys[2:]) == {}
    assert str(keys[2]) in caplog.text


def test_a_file_that_is_rewritten_while_it_is_mapped_is_read_again(stored):
    tier, keys = disk(stored.parent), list(BLOCKS)
    held = tier.get(keys[:1])
    os.truncate(stored, 100)
    assert tier.get(keys) == {} and not stored.exists()
    tier.put(BLOCKS, ORIGIN)
    assert serves(tier) == set(BLOCKS)
    del held


class Killed(BaseException):
    """Ends a writer where it stands."""


@pytest.mark.parametrize("step", ["open", "write", "flush", "fsync", "replace"])
@pytest.mark.parametrize("fault", [Killed, OSError])
def test_a_writer_that_dies_leaves_nothing(tmp_path, monkeypatch, step, fault, caplog):
    class File:
        def __init__(self, *_: object) -> None:
            self.file = open(*_)  # noqa: SIM115

        def __getattr__(self, name: str) -> object:
            if name == step:
                raise fault(step)
            return getattr(self.file, name)

        def __enter__(self) -> File:
            return self

        def __exit__(self, *_: object) -> None:
            self.file.close()

    def fail(*_: object) -> None:
        raise fault(step)

    monkeypatch.setattr(writing, "open", fail if step == "open" else File, raising=False)
    if step in ("fsync", "replace"):
        monkeypatch.setattr(writing.os, step, fail)
    tier = disk(tmp_path)
    if fault is Killed:
        with pytest.raises(Killed):
            tier.put(BLOCKS, ORIGIN)
    else:
        with caplog.at_level(logging.WARNING):
            tier.put(BLOCKS, ORIGIN)
        assert "is not kept on disk" in caplog.text
    monkeypatch.undo()
    assert list(tmp_path.iterdir()) == [] and serves(tier) == set()
    tier.put(BLOCKS, ORIGIN)
    assert serves(disk(tmp_path)) == set(BLOCKS)


_WRITER = """
import sys, time, pathlib
from tests.store.contract import *
from promptcache.store.disk import DiskTier
tier = DiskTier(pathlib.Path(sys.argv[1]), 1 << 30, codec("none"))
blocks = [arena(400, 400, seed=1000 * n) for n in range(3)]
print("ready", flush=True)
while True:
    for each in blocks:
        tier.put(each, ORIGIN)
    for each in blocks:
        tier.discard(list(each))
"""


@pytest.mark.slow
def test_a_writer_that_is_killed_at_ten_random_moments(tmp_path):
    draw, root = random.Random(11), Path(__file__).parents[2]
    blocks = [arena(400, 400, seed=1000 * n) for n in range(3)]
    for _ in range(10):
        with subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(tmp_path)], cwd=root, stdout=subprocess.PIPE
        ) as writer:
            assert writer.stdout is not None and writer.stdout.readline() == b"ready\n"
            time.sleep(draw.random() * 0.2)
            writer.send_signal(signal.SIGKILL)
        tier = disk(tmp_path)
        for each in blocks:
            found = tier.get(each)
            assert all(near(found[key], each[key], tier.codec) for key in found)
    for path in tmp_path.glob(".*.tmp"):
        os.utime(path, (1, 1))
    disk(tmp_path).put(BLOCKS, ORIGIN)
    assert not list(tmp_path.glob(".*.tmp"))


def test_a_disk_that_is_full(tmp_path, monkeypatch, caplog):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writing.os, "fsync", full)
    tier = disk(tmp_path)
    with caplog.at_level(logging.WARNING):
        tier.put(BLOCKS, ORIGIN)
    assert "No space left" in caplog.text and not list(tmp_path.iterdir()) and serves(tier) == set()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_disk_that_is_full_while_bytes_are_written(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(writing, "open", lambda *_: open("/dev/full", "wb"), raising=False)  # noqa: SIM115
    with caplog.at_level(logging.WARNING):
        disk(tmp_path).put(BLOCKS, ORIGIN)
    assert "No space left" in caplog.text and not files(tmp_path)


@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written(stored, caplog):
    stored.parent.chmod(0o555)
    try:
        tier = disk(stored.parent)
        assert serves(tier) == set(BLOCKS)
        with caplog.at_level(logging.WARNING):
            tier.put(arena(7, seed=500), ORIGIN)
        assert "is not kept on disk" in caplog.text
    finally:
        stored.parent.chmod(0o755)


def test_a_damaged_file_that_cannot_be_removed_is_told_once(stored, monkeypatch, caplog):
    data = bytearray(stored.read_bytes())
    data[-1] ^= 1
    stored.write_bytes(data)

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("promptcache.store.usage.os.unlink", refuse)
    tier = disk(stored.parent)
    with caplog.at_level(logging.WARNING):
        assert serves(tier) == serves(tier) == set()
    assert caplog.text.count("is damaged") == 1
    monkeypatch.undo()
    tier.put(BLOCKS, ORIGIN)
    assert serves(tier) == set(BLOCKS)


def test_a_folder_that_vanishes(stored, caplog):
    tier = disk(stored.parent)
    held = tier.get(BLOCKS)
    shutil.rmtree(stored.parent)
    with caplog.at_level(logging.INFO):
        assert serves(tier) == set() and tier.contains(BLOCKS) == set()
    assert "is gone" in caplog.text
    assert all(torch.equal(held[key].keys[0], BLOCKS[key].keys[0]) for key in BLOCKS)
    tier.put(BLOCKS, ORIGIN)
    assert serves(tier) == serves(disk(stored.parent)) == set(BLOCKS)


def test_what_killed_writers_left_goes_with_the_next_file(tmp_path):
    old, new = tmp_path / ".a.tmp", tmp_path / ".b.tmp"
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (1, 1))
    DiskTier(tmp_path, BUDGET, codec("none")).put(BLOCKS, ORIGIN)
    assert not old.exists() and new.exists()
