"""Copies between main memory and a device, beside its computing: every asynchronous copy is here.

A device works through streams, each in its own order, and an event stands for all that a stream was asked before it.
"""

from __future__ import annotations

from functools import cache
from typing import Protocol

import torch


class Mark(Protocol):
    """Stands for all copies that were asked for before it."""

    def hold_computing(self) -> None:
        """What this thread asks the device to compute from now on begins when they are done. The thread goes on."""

    def wait(self) -> None:
        """Returns when they are done."""


class Transfers(Protocol):
    """Copies to and from one device. What was asked for is not to be read before its mark says so, and what it is
    copied from is not to be written to. Main memory should be page-locked: from other memory copies are right, but
    nothing goes on beside them."""

    def room(self, num_elements: int, dtype: torch.dtype) -> torch.Tensor:
        """A vector on the device for `fetch`. It may be dropped at any time: its memory serves others when neither
        copies nor computing need it any more."""

    def fetch(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """From main memory to a part of such a room, in the background; both contiguous."""

    def fetched(self) -> Mark:
        """All that was fetched so far."""

    def brought(self, source: torch.Tensor) -> torch.Tensor:
        """A tensor on the device, for what this thread computes from now on; itself where it is there."""

    def send(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """From the device, behind what it computes now, to contiguous main memory."""

    def sent(self) -> Mark:
        """All that was sent so far, and all that this thread had computed before."""


class CudaTransfers:
    """See `Transfers`. Fetches have a stream of their own; what is sent goes by the computing stream, which made it."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._side = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def room(self, num_elements: int, dtype: torch.dtype) -> torch.Tensor:
        """See `Transfers`."""
        made = torch.empty(num_elements, dtype=dtype, device=self._device)
        # Memory of the computing stream: what used it last may still run, and the side stream may outlast its owner.
        self._side.wait_stream(torch.cuda.current_stream(self._device))
        made.record_stream(self._side)
        return made

    def fetch(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """See `Transfers`."""
        with torch.cuda.stream(self._side):
            target.copy_(source, non_blocking=True)

    def fetched(self) -> Mark:
        """See `Transfers`."""
        return _Event(self._side, self._device)

    def brought(self, source: torch.Tensor) -> torch.Tensor:
        """See `Transfers`."""
        return source.to(self._device, non_blocking=True)

    def send(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """See `Transfers`."""
        # Of a source that is not contiguous torch would make a copy in main memory, and fill it before it has come.
        target.copy_(source.contiguous(), non_blocking=True)

    def sent(self) -> Mark:
        """See `Transfers`."""
        return _Event(torch.cuda.current_stream(self._device), self._device)


class _Event:
    """See `Mark`."""

    def __init__(self, stream: torch.cuda.Stream, device: torch.device) -> None:
        self._device = device
        self._event = stream.record_event()

    def hold_computing(self) -> None:
        torch.cuda.current_stream(self._device).wait_event(self._event)

    def wait(self) -> None:
        self._event.synchronize()


class BlockingTransfers:
    """See `Transfers`. For devices without streams of ours, main memory among them: all is done at once."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def room(self, num_elements: int, dtype: torch.dtype) -> torch.Tensor:
        """See `Transfers`."""
        return torch.empty(num_elements, dtype=dtype, device=self._device)

    def fetch(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """See `Transfers`."""
        target.copy_(source)

    def fetched(self) -> Mark:
        """See `Transfers`."""
        return _Done()

    def brought(self, source: torch.Tensor) -> torch.Tensor:
        """See `Transfers`."""
        return source.to(self._device)

    def send(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """See `Transfers`."""
        target.copy_(source)

    def sent(self) -> Mark:
        """See `Transfers`."""
        return _Done()


class _Done:
    """See `Mark`."""

    def hold_computing(self) -> None:
        pass

    def wait(self) -> None:
        pass


@cache
def transfers(device: torch.device) -> Transfers:
    """Those of a device, the same for the whole process."""
    return CudaTransfers(device) if device.type == "cuda" else BlockingTransfers(device)
