"""Attention that also returns its log-sum-exp: the one owner of all kernels."""

from __future__ import annotations

import logging

import torch

from promptcache.kv.kernels.base import Kernel, Part
from promptcache.kv.kernels.cpu_flash import CpuFlash
from promptcache.kv.kernels.cuda_efficient import CudaEfficient
from promptcache.kv.kernels.cuda_flash import CudaFlash
from promptcache.kv.kernels.plain import Plain

__all__ = ["KERNELS", "Part", "attend", "merge"]

logger = logging.getLogger(__name__)

KERNELS: list[Kernel] = [CpuFlash(), CudaFlash(), CudaEfficient(), Plain()]
"""The first one that takes a call serves it; the last takes all."""

_missing: set[str] = set()
"""Kernels that this build of torch turned out not to have."""


def attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *,
    scale: float,
    mask: torch.Tensor | None = None,
    causal: bool = False,
    may_blind: bool = True,
) -> Part:
    """Attention of [batch, heads, rows, head_dim] to [batch, heads, seq_len, head_dim].

    Returns the output [batch, heads, rows, value_dim] in the query's dtype and the log-sum-exp of the scaled scores
    [batch, heads, rows] in float32; a row that sees nothing gives zeros and -inf. `mask` is additive, broadcastable to
    [batch, heads, rows, seq_len]; `causal` is for square inputs, row i sees keys 0 to i.
    A caller whose mask leaves every row something to see says so with `may_blind` false, and saves a check.
    """
    batch, heads, rows, _ = query.shape
    if rows == 0 or key.shape[-2] == 0:
        # No kernel is asked for nothing: that of the CPU ends the process.
        output = query.new_zeros((batch, heads, rows, value.shape[-1]))
        return output, query.new_full((batch, heads, rows), float("-inf"), dtype=torch.float32)
    output, lse = _by_kernel(query, key, value, scale, mask, causal)
    if mask is not None and may_blind:
        # Kernels say 0 for such a row, or the lowest value, and give the mean of all values, or nan.
        blind = (mask.amax(-1) <= torch.finfo(mask.dtype).min / 2).expand(batch, heads, rows)
        output = output.masked_fill(blind.unsqueeze(-1), 0)
        lse = lse.masked_fill(blind, float("-inf"))
    return output, lse


def merge(outputs: list[torch.Tensor], lses: list[torch.Tensor]) -> torch.Tensor:
    """One attention from partial ones over disjoint keys: outputs [..., rows, value_dim] weighted by their log-sum-exp
    [..., rows], in float32. At least one part must see something in every row."""
    if len(outputs) == 1:
        return outputs[0]
    weights = torch.stack(lses).softmax(0)[..., None].unbind()
    merged = outputs[0].float() * weights[0]
    for output, weight in zip(outputs[1:], weights[1:], strict=True):
        merged.addcmul_(output.float(), weight)
    return merged.to(outputs[0].dtype)


def _by_kernel(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    scale: float,
    mask: torch.Tensor | None,
    causal: bool,
) -> Part:
    for kernel in KERNELS:
        if kernel.name not in _missing and kernel.takes(query, key, value, mask, causal):
            try:
                return kernel.run(query, key, value, scale=scale, mask=mask, causal=causal)
            except RuntimeError as fault:
                if not _says_missing(fault):
                    raise
                _missing.add(kernel.name)
                logger.warning("this build of torch has no %s attention; another kernel takes its place", kernel.name)
    raise AssertionError("the last kernel takes all")


def _says_missing(fault: RuntimeError) -> bool:
    """Whether a kernel is not there at all: torch knows its name on every platform, and has it not on every one."""
    return isinstance(fault, NotImplementedError) or "not enabled for build" in str(fault)
