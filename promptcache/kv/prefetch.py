"""Stored states in main memory on their way to the model's devices: layers are copied ahead of those that compute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from promptcache.kv.devices import Devices
from promptcache.kv.segment_view import SegmentView
from promptcache.kv.transfers import Mark, Transfers, transfers

_AHEAD = 2
"""Layers whose copies are asked for before the layer in turn: with two, the copying never waits for this thread."""

Pair = tuple[torch.Tensor, torch.Tensor]


class Prefetch:
    """Copies of views on the model's devices, for one request. Each layer is copied once, in the background, and stays
    as long as the request does: decoding reads all of it again for each token.

    The memory for them is taken at the start, so that no copy waits for what computes; a layer that computes waits for
    its own copy alone, and on the device, not in this thread.
    """

    def __init__(self, views: Sequence[SegmentView], devices: Sequence[torch.device]) -> None:
        """`devices`: one a layer, which the views' states are on, or in main memory."""
        self._layers = [
            _Layer(device, [(view.keys[number], view.values[number]) for view in views])
            for number, device in enumerate(devices)
        ]
        self._next = 0
        self._ask_until(_AHEAD)

    def layer(self, number: int) -> list[Pair]:
        """Keys and values of each view, [1, num_kv_heads, seq_len, head_dim], for what this thread computes from now
        on."""
        self._ask_until(number + 1 + _AHEAD)
        return self._layers[number].ready()

    def _ask_until(self, end: int) -> None:
        for layer in self._layers[self._next : end]:
            layer.ask()
        self._next = max(self._next, end)


class _Layer:
    """One layer of all views."""

    def __init__(self, device: torch.device, stored: list[Pair]) -> None:
        away = [states for pair in stored for states in pair if states.device != device]
        self._carrier: Transfers | None = None
        self._mark: Mark | None = None
        self._copies: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._pairs = stored
        if not away:
            return
        self._carrier = transfers(device)
        room = self._carrier.room(sum(states.numel() for states in away), away[0].dtype)
        parts = iter(torch.split(room, [states.numel() for states in away]))

        def placed(states: torch.Tensor) -> torch.Tensor:
            if states.device == device:
                return states
            # By token, as in page-locked arenas: what is side by side there is copied in one go.
            source = states.transpose(1, 2)
            target = next(parts).view(source.shape)
            self._copies.append((target, source))
            return target.transpose(1, 2)

        self._pairs = [(placed(keys), placed(values)) for keys, values in stored]

    def ask(self) -> None:
        """Asks for the copies."""
        if self._carrier is not None:
            for target, source in self._copies:
                self._carrier.fetch(target, source)
            self._mark = self._carrier.fetched()
            self._copies = []

    def ready(self) -> list[Pair]:
        """What was asked for, for computing that comes now."""
        if self._mark is not None:
            self._mark.hold_computing()
            self._mark = None
        return self._pairs


@dataclass(frozen=True)
class _Fetched:
    """The keys (`which` 0) or values (1) of one view, by layer."""

    prefetch: Prefetch
    number: int
    which: int

    def __getitem__(self, layer: int, /) -> torch.Tensor:
        return self.prefetch.layer(layer)[self.number][self.which]


def fetched(views: tuple[SegmentView, ...], devices: Devices) -> tuple[SegmentView, ...]:
    """The views for a model whose layers are on those devices: themselves where all is there, else views whose layers
    come when they are asked for."""
    layers = range(len(devices))
    if devices.are_cpu or all(view.keys[layer].device == devices[layer] for layer in layers for view in views):
        return views
    prefetch = Prefetch(views, devices)
    return tuple(
        replace(view, keys=_Fetched(prefetch, number, 0), values=_Fetched(prefetch, number, 1))
        for number, view in enumerate(views)
    )
