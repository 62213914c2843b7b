"""How much attention falls on each key."""

from __future__ import annotations

from collections.abc import Sequence

import torch

_ROWS = 64
"""Rows at once: all weights of many rows over long contexts would take gigabytes."""


def attention_mass(
    query: torch.Tensor, key: torch.Tensor, mask: torch.Tensor | None, scale: float, rows: Sequence[int]
) -> torch.Tensor:
    """The weights that `rows` of the query, [1, num_heads, queries, head_dim], give to each key, [1, num_kv_heads,
    seq_len, head_dim], summed over rows and heads: float32 [seq_len]. `mask` is additive, [1, 1, queries, seq_len]."""
    kv_heads, seq_len = key.shape[1:3]
    group = query.shape[1] // kv_heads
    keys = key[0].float().transpose(-1, -2)
    total = torch.zeros(seq_len, device=key.device)
    for start in range(0, len(rows), _ROWS):
        some = torch.tensor(rows[start : start + _ROWS], device=query.device)
        asked = query[0, :, some].float().reshape(kv_heads, group * len(some), -1)
        scores = (torch.matmul(asked, keys) * scale).reshape(kv_heads * group, len(some), seq_len)
        if mask is not None:
            scores = scores + mask[0, :, some].float()
        total += scores.softmax(-1).sum((0, 1))
    return total
