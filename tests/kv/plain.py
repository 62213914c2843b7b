"""Attention by matrix products, to compare kernels with."""

from __future__ import annotations

import torch

from promptcache.kv.kernels.base import Part
from promptcache.kv.kernels.plain import Plain


def plain_attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *,
    scale: float,
    mask: torch.Tensor | None = None,
    causal: bool = False,
) -> Part:
    """As `attend`, in float32 whatever the device and the dtype."""
    return Plain().run(query, key, value, scale=scale, mask=mask, causal=causal)
