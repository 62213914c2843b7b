"""Log-probabilities of continuations behind one prompt, all in the prompt's own pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from promptcache.layout.token_tree import TokenTree


@dataclass(frozen=True)
class Score:
    """A continuation's summed log-probability over its `num_tokens` tokens."""

    logprob: float
    num_tokens: int

    @property
    def mean(self) -> float:
        """Log-probability per token."""
        return self.logprob / self.num_tokens


@dataclass(frozen=True)
class Classification:
    """`label` has the highest of `scores` (log-probabilities per token, or summed, as was asked for), by `margin` over
    the next; the first of equal ones in alphabetical order. `details` has both for every label."""

    label: str
    scores: Mapping[str, float]
    margin: float
    details: Mapping[str, Score]

    @classmethod
    def of(cls, details: Mapping[str, Score], normalize: bool) -> Classification:
        """The best label, independent of the order in which labels were given."""
        scores = {label: score.mean if normalize else score.logprob for label, score in details.items()}
        ranked = sorted(scores, key=lambda label: (-scores[label], label))
        margin = scores[ranked[0]] - scores[ranked[1]] if len(ranked) > 1 else float("inf")
        return cls(ranked[0], scores, margin, details)


def score_continuations(logits: torch.Tensor, tree: TokenTree, continuations: Sequence[Sequence[int]]) -> list[Score]:
    """Scores from the rows of `AttentionState.prefill_tree`: [1 + nodes, vocab_size], float32."""
    normalizers = logits.logsumexp(-1)
    rows = torch.tensor([node + 1 for nodes in tree.rows for node in nodes])
    tokens = torch.tensor([token for continuation in continuations for token in continuation])
    logprobs = (logits[rows, tokens] - normalizers[rows]).double().tolist()
    scores, at = [], 0
    for continuation in continuations:
        scores.append(Score(sum(logprobs[at : at + len(continuation)]), len(continuation)))
        at += len(continuation)
    return scores
