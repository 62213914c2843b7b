"""How far reuse moves a model's predictions from a full prefill's.

Small models score low on LongBench whatever is done to their states, so the predictions themselves are compared, on
the tokens of the gold answer (teacher forcing).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Fidelity:
    """One record. KL in nats, `nll` in nats a token, `top1` a share; `nll` is that of the side compared with full."""

    mean_kl: float
    first_kl: float
    top1: float
    nll: float
    tokens: int


def compare(full: Tensor, other: Tensor, targets: Tensor) -> Fidelity:
    """Both sides' logits `[seq_len, vocab_size]` that predict `targets` `[seq_len]`, at least one token.

    Row i is the prediction of target i, so row 0 is that of the prompt's last token.
    """
    assert full.shape == other.shape and full.shape[0] == targets.shape[0] > 0, "logits and targets must match"
    divergence = kl_divergence(full, other)
    return Fidelity(
        mean_kl=float(divergence.mean()),
        first_kl=float(divergence[0]),
        top1=float(top1_agreement(full, other).double().mean()),
        nll=float(negative_log_likelihood(other, targets).mean()),
        tokens=targets.shape[0],
    )


def kl_divergence(full: Tensor, other: Tensor) -> Tensor:
    """KL(full || other) for each row of logits `[..., vocab_size]`, in nats, float64 `[...]`, never below 0.

    Tokens that `full` rules out (a logit of minus infinity) add nothing.
    """
    log_p, log_q = (logits.double().log_softmax(dim=-1) for logits in (full, other))
    terms = log_p.exp() * (log_p - log_q)
    # float64: the sum of 50,000 small terms of both signs would drown in float32's rounding where both sides agree.
    return torch.where(log_p.isneginf(), 0.0, terms).sum(dim=-1).clamp(min=0.0)


def top1_agreement(full: Tensor, other: Tensor) -> Tensor:
    """Whether both sides' likeliest token is the same, for each row of logits `[..., vocab_size]`."""
    return full.argmax(dim=-1) == other.argmax(dim=-1)


def negative_log_likelihood(logits: Tensor, targets: Tensor) -> Tensor:
    """-log p of each target: logits `[seq_len, vocab_size]`, targets `[seq_len]`, float64 `[seq_len]`, in nats."""
    log_p = logits.double().log_softmax(dim=-1)
    return -log_p.gather(-1, targets.unsqueeze(-1).to(log_p.device)).squeeze(-1)
