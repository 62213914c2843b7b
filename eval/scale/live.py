"""How much memory tensors take, whoever holds them."""

from __future__ import annotations

import gc
from typing import Any

import torch


def live_bytes() -> int:
    """Bytes of the memory behind all tensors of this process that Python knows, each piece once."""
    found: dict[int, int] = {}
    for each in gc.get_objects():
        # `isinstance` would ask strange objects for their class, and some warn then.
        if issubclass(type(each), torch.Tensor) and each.layout == torch.strided and each.device.type != "meta":
            storage = each.untyped_storage()
            found[storage.data_ptr()] = storage.nbytes()
    return sum(found.values())


class LiveBytes:
    """The most bytes that tensors took before any pass of a model (`peak`), beyond those that were there at the start,
    while it is held with `with`. It takes a moment a pass: for runs that are not timed."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.peak = 0

    def __enter__(self) -> LiveBytes:
        gc.collect()
        self._start = live_bytes()
        self._handle = self._model.register_forward_pre_hook(self._look)
        return self

    def __exit__(self, *_: object) -> None:
        self._handle.remove()

    def _look(self, *_: object) -> None:
        self.peak = max(self.peak, live_bytes() - self._start)
