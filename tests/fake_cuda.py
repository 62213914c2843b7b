"""Tensors on a GPU that is not there: shapes, dtypes and devices are real, and two devices in one operation are an
error, but there are no numbers (torch's FakeTensorMode).

A build of torch without CUDA refuses some calls on such tensors before the mode can see them; these are led past it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode

from promptcache.kv import arena, transfers, window
from promptcache.kv.kernels import cuda
from promptcache.kv.rotation import Rotary
from promptcache.models import adapter
from promptcache.models.sampling import Sampler

aten = torch.ops.aten


class FakeCuda(TorchFunctionMode):
    """`device` is where its tensors are; `copies` counts those that went there from main memory."""

    def __init__(self) -> None:
        super().__init__()
        self.device = torch.device("cuda", 0)
        self.copies = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if func is torch.Tensor.__getitem__:
            return _item(*args)
        if func is torch.Tensor.__setitem__:
            target, key, value = args
            place = _item(target, key)
            return place.fill_(value) if not isinstance(value, torch.Tensor) else aten.copy_.default(place, value)
        if name == "copy_":
            return aten.copy_.default(args[0], args[1])
        if name == "to" and isinstance(args[0], torch.Tensor):
            moved = _to(args[0], args[1:], kwargs)
            self.copies += moved.device != args[0].device and moved.device.type == "cuda"
            return moved
        if func is torch.unique:
            # How many there are, numbers would tell: each is its own.
            return args[0], torch.arange(len(args[0]))
        if name == "contiguous":
            return aten.contiguous.default(args[0])
        return func(*args, **kwargs)


def _item(tensor: torch.Tensor, key: Any) -> torch.Tensor:
    keys = key if isinstance(key, tuple) else (key,)
    given = sum(each is not None and each is not Ellipsis for each in keys)
    picked: dict[int, torch.Tensor] = {}
    dim = 0
    for each in keys:
        if each is None:
            tensor = aten.unsqueeze.default(tensor, dim)
            dim += 1
        elif each is Ellipsis:
            dim = tensor.dim() - (given - dim) if dim <= given else dim
        elif isinstance(each, int):
            tensor = aten.select.int(tensor, dim, each)
        elif isinstance(each, slice):
            tensor = aten.slice.Tensor(tensor, dim, each.start, each.stop, each.step or 1)
            dim += 1
        else:
            picked[dim] = torch.as_tensor(each)
            dim += 1
    return aten.index.Tensor(tensor, [picked.get(n) for n in range(max(picked) + 1)]) if picked else tensor


def _to(tensor: torch.Tensor, args: Any, kwargs: Any) -> torch.Tensor:
    device, dtype = kwargs.get("device"), kwargs.get("dtype")
    for each in args:
        if isinstance(each, torch.dtype):
            dtype = each
        elif isinstance(each, torch.Tensor):
            device, dtype = each.device, each.dtype
        elif isinstance(each, str | torch.device):
            device = each
    device = tensor.device if device is None else torch.device(device)
    device = torch.device("cuda", 0) if device.type == "cuda" else device
    dtype = dtype or tensor.dtype
    if (device, dtype) == (tensor.device, tensor.dtype):
        return tensor
    return aten._to_copy.default(tensor, dtype=dtype, device=device)


@contextmanager
def fake_cuda() -> Iterator[FakeCuda]:
    """Within it, `torch.device("cuda", 0)` has tensors, and our code finds what it asks of numbers decided: tokens are
    1, a model's rotation is known, windows hide nothing, its weights are like no others."""
    transfers.transfers.cache_clear()
    frequencies = torch.linspace(1, 0.01, 8, dtype=torch.float64)

    def seen(self: Any, positions: Any, width: Any, among: Any, group: int, like: torch.Tensor) -> Any:
        mask = torch.zeros(len(self.rows), len(positions), dtype=like.dtype).repeat(group, 1)
        return window._Seen(0, len(positions), aten._to_copy.default(mask, device=like.device))

    def rotations(model: Any, states: Any, max_positions: Any) -> Any:
        return (Rotary(frequencies.clone()),) * model.config.num_hidden_layers

    with (
        FakeTensorMode(allow_non_fake_inputs=True),
        FakeCuda() as fake,
        patch.object(cuda, "capability", lambda device: (8, 0)),
        patch.object(torch.backends.cuda, "is_flash_attention_available", lambda: True),
        patch.object(transfers, "CudaTransfers", transfers.BlockingTransfers),
        patch.object(arena, "_locked", lambda num_elements, dtype: torch.empty(num_elements, dtype=dtype)),
        patch.object(adapter, "model_fingerprint", lambda model: "fake"),
        patch.object(adapter, "find_rotations", rotations),
        patch.object(adapter.ModelAdapter, "_ignores_positions", lambda self: False),
        patch.object(window.Windows, "_look", seen),
        patch.object(Sampler, "draw", lambda self, logits, context: 1),
    ):
        yield fake
    transfers.transfers.cache_clear()
