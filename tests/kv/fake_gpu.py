"""Stand-ins for torch's CUDA attention, on the CPU: as strict as the real ones, and with their traps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import torch

from promptcache.kv import kernel
from promptcache.kv.kernels import cuda
from promptcache.kv.kernels.cuda_efficient import CudaEfficient
from promptcache.kv.kernels.cuda_flash import CudaFlash
from promptcache.kv.kernels.plain import Plain


@contextmanager
def fake_gpu(generation: int = 8, *, has_flash: bool = True) -> Iterator[list[str]]:
    """Within it tensors of the CPU are attended as those of a GPU of that generation; gives the ops called."""
    called: list[str] = []

    def flash(query, key, value, dropout_p=0.0, is_causal=False, return_debug_mask=False, *, scale=None):
        called.append("flash")
        assert query.dtype in (torch.float16, torch.bfloat16) and query.shape[-1] <= 256
        for states in (query, key, value):
            assert states.shape[-1] % 8 == 0 and states.numel()
            _check_aligned(states)
        output, lse = _attend(query, key, value, None, is_causal, scale)
        return output, lse, None, None, query.shape[2], key.shape[2], torch.empty(2), torch.empty(()), torch.empty(0)

    def efficient(query, key, value, attn_bias, compute_log_sumexp, dropout_p=0.0, is_causal=False, *, scale=None):
        called.append("efficient")
        assert compute_log_sumexp
        for states in (query, key, value):
            assert states.shape[-1] * states.dtype.itemsize % 16 == 0 and states.numel()
            _check_aligned(states)
        if attn_bias is not None:
            assert attn_bias.dtype == query.dtype and attn_bias.shape == (*query.shape[:3], key.shape[2])
            _check_aligned(attn_bias)
        output, lse = _attend(query, key, value, attn_bias, is_causal, scale)
        blind = torch.isinf(lse)
        output = output.masked_fill(blind[..., None], float("nan"))
        rows = torch.full((*lse.shape[:2], -(-lse.shape[2] // 32) * 32), float("nan"))
        rows[..., : lse.shape[2]] = lse
        return output.transpose(1, 2).contiguous().transpose(1, 2), rows, torch.empty(()), torch.empty(())

    with (
        patch.object(kernel, "KERNELS", [CudaFlash(), CudaEfficient(), Plain()]),
        patch.object(kernel, "_missing", set()),
        patch.object(cuda, "capability", lambda device: (generation, 0)),
        patch.object(torch.backends.cuda, "is_flash_attention_available", lambda: has_flash),
        patch.object(torch.ops.aten, "_scaled_dot_product_flash_attention", flash),
        patch.object(torch.ops.aten, "_scaled_dot_product_efficient_attention", efficient),
    ):
        yield called


def _check_aligned(states: torch.Tensor) -> None:
    """Last stride 1, everything else a multiple of 16 bytes."""
    size = states.element_size()
    assert states.stride(-1) == 1, "a last stride other than 1"
    assert all(step * size % 16 == 0 for step in states.stride()[:-1]), f"rows begin anywhere: {states.stride()}"
    assert states.storage_offset() * size % 16 == 0, "the address is not aligned"


def _attend(query, key, value, mask, causal, scale):
    scores = query.float() @ key.float().transpose(-1, -2) * scale
    if mask is not None:
        scores = scores + mask.float()
        # The kernel counts in powers of two, where the lowest numbers are out of range.
        scores = scores.masked_fill(scores.double() * 1.4427 < torch.finfo(torch.float32).min, float("-inf"))
    if causal:
        assert scores.shape[-1] == scores.shape[-2]
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), float("-inf"))
    lse = scores.logsumexp(-1)
    output = (scores - lse.masked_fill(torch.isinf(lse), 0)[..., None]).exp() @ value.float()
    return output.to(query.dtype), lse
