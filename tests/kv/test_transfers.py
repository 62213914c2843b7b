"""The protocol of streams and events, on stand-ins for CUDA's, and what the whole code must not do."""

from __future__ import annotations

import ast
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

import promptcache
from promptcache.kv.arena import PinnedArena
from promptcache.kv.block import KVBlock
from promptcache.kv.devices import Devices
from promptcache.kv.transfers import CudaTransfers
from tests.kv.fake_transfers import GPU, fake_transfers

ROOT = Path(promptcache.__file__).parent


@pytest.fixture
def log(monkeypatch) -> list[tuple[object, ...]]:
    """What streams and events were told. Tensors are those of the CPU; copies are done at once."""
    log: list[tuple[object, ...]] = []
    current = ["computing"]

    class Stream:
        def __init__(self, name: object) -> None:
            self.name = name if isinstance(name, str) else "side"

        def wait_stream(self, other):
            log.append((self.name, "waits for", other.name))

        def wait_event(self, event):
            log.append((self.name, "waits for", event.name))

        def record_event(self):
            log.append((self.name, "event"))
            return Event(f"event of {self.name}")

    class Event:
        def __init__(self, name: str) -> None:
            self.name = name

        def synchronize(self):
            log.append(("thread", "waits for", self.name))

    @contextmanager
    def within(stream):
        current.append(stream.name)
        yield
        current.pop()

    copy = torch.Tensor.copy_

    def copied(self, source, non_blocking=False):
        assert source.is_contiguous() and self.is_contiguous()
        log.append((current[-1], "copy", non_blocking))
        return copy(self, source)

    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: Stream(current[-1]))
    monkeypatch.setattr(torch.cuda, "stream", within)
    monkeypatch.setattr(torch.cuda, "synchronize", None)
    monkeypatch.setattr(torch.Tensor, "copy_", copied)
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda self, s: log.append(("memory", "kept for", s.name)))
    return log


def test_a_fetch(log):
    carrier = CudaTransfers(torch.device("cpu"))
    room = carrier.room(6, torch.float32)
    # What had this memory before may still compute, and its next owner must not get it while the copy is under way.
    assert log == [("side", "waits for", "computing"), ("memory", "kept for", "side")]
    del log[:]
    carrier.fetch(room.view(2, 3), torch.ones(2, 3))
    mark = carrier.fetched()
    assert log == [("side", "copy", True), ("side", "event")]
    del log[:]
    mark.hold_computing()
    assert log == [("computing", "waits for", "event of side")]


def test_what_is_sent_is_waited_for_behind_the_computing_that_made_it(log):
    carrier = CudaTransfers(torch.device("cpu"))
    carrier.send(torch.empty(3, 2), torch.ones(2, 3).t())
    carrier.sent().wait()
    assert log == [("computing", "copy", True), ("computing", "event"), ("thread", "waits for", "event of computing")]


def test_states_in_locked_memory_are_there_when_they_can_be_read():
    block = KVBlock(*(tuple(torch.randn(2, 3, 8) for _ in range(4)) for _ in range(2)))
    with fake_transfers() as carrier, pytest.MonkeyPatch.context() as patch:
        # The block stands for one that is on the device.
        patch.setattr("promptcache.kv.arena.transfers", lambda device: carrier)
        found = PinnedArena.like(block, 5).put(block, 1)
        assert carrier.log[-1] == ("wait", 8) and carrier.log.count(("wait", 8)) == 1
    assert all(torch.equal(a, b) for a, b in zip(found.keys, block.keys, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(found.values, block.values, strict=True))
    # A run of tokens is one piece.
    assert found.keys[0].transpose(0, 1).is_contiguous()


def test_a_lap_waits_for_the_device_alone():
    with fake_transfers() as carrier:
        Devices([GPU] * 3).wait()
        assert carrier.log == [("wait", 0)]
        Devices([torch.device("cpu")] * 3).wait()
        assert carrier.log == [("wait", 0)]


def _trees():
    return [(path, ast.parse(path.read_text(encoding="utf-8"))) for path in sorted(ROOT.rglob("*.py"))]


def test_asynchronous_copies_are_in_one_file_and_nothing_waits_for_a_whole_device():
    for path, tree in _trees():
        words = {node.arg for node in ast.walk(tree) if isinstance(node, ast.keyword)}
        assert "non_blocking" not in words or path.name == "transfers.py", path
        calls = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        assert "synchronize" not in calls or path.name == "transfers.py", path


def test_who_sends_to_main_memory_waits_before_anybody_can_read_it():
    senders = 0
    for path, tree in _trees():
        for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
            written = ast.unparse(function)
            if "transfers(" in written and ").send(" in written:
                senders += 1
                assert ").sent().wait()" in written[written.rindex(").send(") :], f"{path}: {function.name}"
    assert senders == 1
