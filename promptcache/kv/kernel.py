"""Attention that also returns its log-sum-exp: the one owner of the CPU kernel, and plain matrix products beside it."""

from __future__ import annotations

import torch

_BLIND = torch.finfo(torch.float32).min / 2
"""Scores below it come from a mask: additive masks hide with the dtype's lowest value."""

Part = tuple[torch.Tensor, torch.Tensor]
"""Attention to some of the keys: output [batch, heads, rows, value_dim], log-sum-exp [batch, heads, rows]."""

_KERNEL_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


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
        # The CPU kernel ends the process on empty input.
        output = query.new_zeros((batch, heads, rows, value.shape[-1]))
        return output, query.new_full((batch, heads, rows), float("-inf"), dtype=torch.float32)
    if _kernel_takes(query, key, value):
        output, lse = _flash_cpu(query, key, value, scale, mask, causal)
    else:
        output, lse = plain_attend(query, key, value, scale=scale, mask=mask, causal=causal)
    if mask is not None and may_blind:
        # The kernel says 0 for a row that sees nothing, and its output is then the mean of all values.
        blind = (mask.amax(-1) <= torch.finfo(mask.dtype).min / 2).expand(batch, heads, rows)
        output = output.masked_fill(blind[..., None], 0)
        lse = lse.masked_fill(blind, float("-inf"))
    return output, lse


def plain_attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *,
    scale: float,
    mask: torch.Tensor | None = None,
    causal: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """As `attend`, by matrix products in float32: for dims, dtypes and devices that the kernel does not take."""
    scores = torch.matmul(query.float() * scale, key.float().transpose(-1, -2))
    if causal:
        rows, length = scores.shape[-2:]
        scores = scores.masked_fill(torch.ones(rows, length, dtype=torch.bool, device=query.device).triu(1), _BLIND * 2)
    if mask is not None:
        scores = scores + mask.float()
    lse = torch.logsumexp(scores, -1)
    output = torch.matmul((scores - lse[..., None]).exp(), value.float())
    return output.to(query.dtype), lse


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


def _kernel_takes(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> bool:
    return (
        query.is_cpu
        and query.dtype in _KERNEL_DTYPES
        and query.dtype == key.dtype == value.dtype
        and 8 <= query.shape[-1] == key.shape[-1] == value.shape[-1] <= 256
        and query.shape[1] == key.shape[1] == value.shape[1]
    )


def _flash_cpu(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    scale: float,
    mask: torch.Tensor | None,
    causal: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    # A last stride other than 1 gives wrong numbers without an error.
    query, key, value = (t if t.stride(-1) == 1 else t.contiguous() for t in (query, key, value))
    if mask is not None:
        shape = (*query.shape[:3], key.shape[-2])
        mask = mask.to(query.dtype).expand(shape)
        mask = mask if mask.stride(-1) == 1 else mask.contiguous()
    output, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        query, key, value, 0.0, causal, attn_mask=mask, scale=scale
    )
    return output, lse.float()
