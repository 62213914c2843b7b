"""Logits to the next token, with transformers' own processors."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from transformers import (
    LogitsProcessorList,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from promptcache.errors import RequestError


class Sampler:
    """Draws tokens for one request. Temperature 0 is greedy; a repetition penalty counts the whole logical prompt and
    the reply so far. With a seed, the same request draws the same tokens.

    Raises RequestError for values out of range.
    """

    def __init__(
        self, *, temperature: float, top_p: float, top_k: int, repetition_penalty: float, seed: int | None
    ) -> None:
        _check("temperature", temperature, temperature >= 0, "0 (greedy) or more")
        _check("top_p", top_p, 0 < top_p <= 1, "above 0 and at most 1")
        _check("top_k", top_k, top_k >= 0 and top_k == int(top_k), "0 (off) or a whole number above")
        _check("repetition_penalty", repetition_penalty, repetition_penalty > 0, "above 0 (1 is off)")
        self.greedy = temperature == 0
        self.processors = LogitsProcessorList()
        if repetition_penalty != 1:
            self.processors.append(RepetitionPenaltyLogitsProcessor(float(repetition_penalty)))
        if not self.greedy:
            if temperature != 1:
                self.processors.append(TemperatureLogitsWarper(float(temperature)))
            if top_k:
                self.processors.append(TopKLogitsWarper(int(top_k)))
            if top_p < 1:
                self.processors.append(TopPLogitsWarper(float(top_p)))
        self.generator: torch.Generator | None = None
        self.seed = seed

    def draw(self, logits: torch.Tensor, context: Sequence[int]) -> int:
        """The next token for logits [vocab_size] behind `context` (prompt and reply so far)."""
        scores = logits[None]
        if self.processors:
            history = torch.tensor([list(context)], dtype=torch.long, device=logits.device)
            scores = self.processors(history, scores.clone())  # type: ignore[arg-type]
        if self.greedy:
            return int(scores[0].argmax())
        if self.generator is None:
            self.generator = torch.Generator(device=logits.device)
            if self.seed is None:
                self.generator.seed()
            else:
                self.generator.manual_seed(self.seed)
        return int(torch.multinomial(scores[0].softmax(-1), 1, generator=self.generator))


def _check(name: str, value: float, good: bool, allowed: str) -> None:
    if not good:
        raise RequestError(f"{name}={value} is out of range", hint=f"it must be {allowed}")
