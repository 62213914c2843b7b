"""How far reuse moves a model's predictions from a full prefill's.

Small models score low on LongBench whatever is done to their states, so the predictions themselves are compared, on
the tokens of the gold answer (teacher forcing).
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from promptcache.runtime.verify.divergence import kl_divergence, negative_log_likelihood


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


def top1_agreement(full: Tensor, other: Tensor) -> Tensor:
    """Whether both sides' likeliest token is the same, for each row of logits `[..., vocab_size]`."""
    return full.argmax(dim=-1) == other.argmax(dim=-1)
