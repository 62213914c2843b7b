"""How far two predictions of the same tokens are apart."""

from __future__ import annotations

import torch
from torch import Tensor


def kl_divergence(full: Tensor, other: Tensor) -> Tensor:
    """KL(full || other) for each row of logits `[..., vocab_size]`, in nats, float64 `[...]`, never below 0.

    Tokens that `full` rules out (a logit of minus infinity) add nothing.
    """
    log_p, log_q = (logits.double().log_softmax(dim=-1) for logits in (full, other))
    terms = log_p.exp() * (log_p - log_q)
    # float64: the sum of 50,000 small terms of both signs would drown in float32's rounding where both sides agree.
    return torch.where(log_p.isneginf(), 0.0, terms).sum(dim=-1).clamp(min=0.0)


def negative_log_likelihood(logits: Tensor, targets: Tensor) -> Tensor:
    """-log p of each target: logits `[seq_len, vocab_size]`, targets `[seq_len]`, float64 `[seq_len]`, in nats."""
    log_p = logits.double().log_softmax(dim=-1)
    return -log_p.gather(-1, targets.unsqueeze(-1).to(log_p.device)).squeeze(-1)
