"""The contract of an attention kernel that returns its log-sum-exp."""

from __future__ import annotations

from typing import Protocol

import torch

Part = tuple[torch.Tensor, torch.Tensor]
"""Attention to some of the keys: output [batch, heads, rows, value_dim], log-sum-exp [batch, heads, rows]."""


class Kernel(Protocol):
    """One way to attend [batch, heads, rows, head_dim] to [batch, heads, seq_len, head_dim].

    `mask` is additive, broadcastable to [batch, heads, rows, seq_len]; `causal` is for square inputs, row i sees keys 0
    to i; never both. Nothing is empty. What a row gets that sees nothing is left open: the caller puts it right.
    """

    name: str

    def takes(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None, causal: bool
    ) -> bool:
        """Whether it serves tensors of this kind: device, dtype, dims; cheap, since it is asked for every call."""

    def run(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        *,
        scale: float,
        mask: torch.Tensor | None,
        causal: bool,
    ) -> Part:
        """Output in the query's dtype, log-sum-exp of the scaled and masked scores in float32 (natural logarithm)."""
