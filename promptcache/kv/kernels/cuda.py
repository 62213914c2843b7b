"""What the CUDA kernels ask of a GPU and of tensors."""

from __future__ import annotations

from functools import cache

import torch

_ALIGNED_BYTES = 16
"""Both kernels read 128 bits at a time: other addresses and strides are an error, or served by a slower variant."""


@cache
def capability(device: torch.device) -> tuple[int, int]:
    """The compute capability of a GPU; (0, 0) for what is none of NVIDIA's: its kernels are others."""
    if device.type != "cuda" or torch.version.hip:
        return (0, 0)
    return torch.cuda.get_device_capability(device)


def fits(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, dtypes: tuple[torch.dtype, ...], oldest: int
) -> bool:
    """Whether these are tensors of equal heads, of one of the dtypes, with dims that fill whole reads, on a GPU of at
    least that generation."""
    return (
        query.dtype in dtypes
        and query.dtype == key.dtype == value.dtype
        and query.shape[1] == key.shape[1] == value.shape[1]
        and query.shape[-1] == key.shape[-1]
        and not (query.shape[-1] * query.dtype.itemsize) % _ALIGNED_BYTES
        and not (value.shape[-1] * query.dtype.itemsize) % _ALIGNED_BYTES
        and capability(query.device)[0] >= oldest
    )


def aligned(states: torch.Tensor) -> torch.Tensor:
    """The tensor itself where its numbers lie side by side and each row begins where a read may; else a copy."""
    return states if _is_aligned(states) else states.clone(memory_format=torch.contiguous_format)


def aligned_mask(mask: torch.Tensor) -> torch.Tensor:
    """As `aligned`, for a mask whose rows may be of any length: they are then those of a wider one."""
    if _is_aligned(mask):
        return mask
    length = mask.shape[-1]
    step = _ALIGNED_BYTES // mask.dtype.itemsize
    wider = torch.nn.functional.pad(mask, (0, step - length % step))
    return wider.contiguous().narrow(-1, 0, length)


def _is_aligned(tensor: torch.Tensor) -> bool:
    steps = [tensor.storage_offset(), *tensor.stride()[:-1]]
    size = tensor.dtype.itemsize
    return tensor.stride(-1) == 1 and not any(step * size % _ALIGNED_BYTES for step in steps)
