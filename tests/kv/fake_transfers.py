"""A device that is main memory, whose copies come as late as they may: what is read too soon is not a number."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import torch

from promptcache.kv import arena, transfers

GPU = torch.device("cuda", 0)
"""Where the tests say that a model's layers are. There is no tensor on it."""


class FakeTransfers:
    """See `Transfers`. `log` has what was asked for, in order."""

    def __init__(self, device: torch.device) -> None:
        self.log: list[tuple[object, ...]] = []
        self.rooms: list[torch.Tensor] = []
        self._queues: dict[str, list[tuple[torch.Tensor, torch.Tensor]]] = {"fetch": [], "send": []}
        self._done = {"fetch": 0, "send": 0}

    def room(self, num_elements, dtype):
        self.log.append(("room",))
        self.rooms.append(torch.full((num_elements,), float("nan"), dtype=dtype))
        return self.rooms[-1]

    def fetch(self, target, source):
        self._later("fetch", target, source)

    def send(self, target, source):
        self._later("send", target.fill_(float("nan")), source)

    def fetched(self):
        return _Mark(self, "fetch", len(self._queues["fetch"]))

    def sent(self):
        return _Mark(self, "send", len(self._queues["send"]))

    def brought(self, source):
        return source.clone()

    def _later(self, kind, target, source):
        assert target.is_contiguous() and target.shape == source.shape
        self._queues[kind].append((target, source))
        self.log.append((kind, len(self._queues[kind])))

    def finish(self, kind: str, end: int) -> None:
        for target, source in self._queues[kind][self._done[kind] : end]:
            target.copy_(source)
        self._done[kind] = max(self._done[kind], end)


class _Mark:
    def __init__(self, owner: FakeTransfers, kind: str, end: int) -> None:
        self._owner, self._kind, self._end = owner, kind, end

    def hold_computing(self):
        assert self._kind == "fetch"
        self._owner.log.append(("hold", self._end))
        self._owner.finish("fetch", self._end)

    def wait(self):
        self._owner.log.append(("wait", self._end))
        self._owner.finish(self._kind, self._end)


@contextmanager
def fake_transfers() -> Iterator[FakeTransfers]:
    """Within it `GPU` has these transfers, and memory is page-locked without a GPU."""
    transfers.transfers.cache_clear()
    with (
        patch.object(transfers, "CudaTransfers", FakeTransfers),
        patch.object(arena, "_locked", lambda num_elements, dtype: torch.empty(num_elements, dtype=dtype)),
    ):
        made = transfers.transfers(GPU)
        assert isinstance(made, FakeTransfers)
        yield made
    transfers.transfers.cache_clear()
