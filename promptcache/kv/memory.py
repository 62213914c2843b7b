"""Memory for states that come and go with requests."""

from __future__ import annotations

import mmap
import weakref
from collections import deque

import torch

_PAGE = 2 << 20
_KEPT, _LARGEST_KEPT = 2, 256 << 20
_HUGE_PAGES = hasattr(mmap, "MADV_HUGEPAGE")

_free: deque[mmap.mmap] = deque(maxlen=_KEPT)
"""Regions that the last requests gave back. Its single steps are atomic: one may be given back at any moment."""


def empty(num_elements: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """An uninitialised vector. On Linux a large one on the CPU lies in huge pages, and its memory serves the next one
    when no tensor needs it any more: new memory comes in page faults, which take longer than filling it."""
    num_bytes = num_elements * dtype.itemsize
    if device.type != "cpu" or not _HUGE_PAGES or num_bytes < 2 * _PAGE:
        return torch.empty(num_elements, dtype=dtype, device=device)
    region = _region(num_bytes)
    view = memoryview(region)
    # The tensor's storage holds the view, and nothing else does.
    weakref.finalize(view, _give_back, region).atexit = False
    return torch.frombuffer(view, dtype=dtype, count=num_elements)


def _region(num_bytes: int) -> mmap.mmap:
    for _ in range(len(_free)):
        try:
            region = _free.popleft()
        except IndexError:
            break
        if num_bytes <= len(region):
            return region
        _free.append(region)
    region = mmap.mmap(-1, -(-num_bytes // _PAGE) * _PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    region.madvise(mmap.MADV_HUGEPAGE)
    return region


def _give_back(region: mmap.mmap) -> None:
    if len(region) <= _LARGEST_KEPT:
        _free.append(region)
