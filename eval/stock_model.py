"""The full prefill that all ratios and all fidelity are taken against: stock transformers, none of our code in it."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import GenerationConfig, StoppingCriteria, StoppingCriteriaList


@dataclass(frozen=True)
class FullPrefill:
    """A prompt run through the model. `logits` [vocab_size] predict the first new token, `token` is the likeliest one;
    `ms` runs from token ids to that token. `cache` is transformers' own, with the states of all `ids`."""

    ids: tuple[int, ...]
    positions: tuple[int, ...]
    logits: Tensor
    token: int
    cache: Any
    ms: float


@dataclass(frozen=True)
class Reply:
    """Greedy tokens, the first one included, and the milliseconds between each and the one before it, from the third
    token on: what lies before that contains the start of `generate`."""

    token_ids: tuple[int, ...]
    later_ms: tuple[float, ...]


class StockModel:
    """A model as transformers ships it. Where an engine has put its attention function on the model, that is taken off
    for each call. `generate` ends at `end_ids`."""

    def __init__(self, model: Any, end_ids: Iterable[int]) -> None:
        self._model = model
        self._end_ids = sorted(end_ids)

    def prefill(self, ids: Sequence[int], positions: Sequence[int] | None = None) -> FullPrefill:
        """The plain `model(ids, logits_to_keep=1)`; with positions that have gaps, under an explicit causal mask.

        transformers can take a gap for the border of packed sequences, and then hides silently what stands before it.
        Without gaps the mask would say what the model does anyway, and cost time.
        """
        positions = tuple(range(len(ids))) if positions is None else tuple(positions)
        with self._stock():
            start = time.perf_counter()
            more: dict[str, Any] = {}
            if positions != tuple(range(len(ids))):
                more = {"position_ids": self._row(positions), "attention_mask": self._causal(len(ids), 0)}
            output = self._model(self._row(ids), logits_to_keep=1, **more)
            logits = output.logits[0, -1].float()
            token = int(logits.argmax())
            ms = (time.perf_counter() - start) * 1000
        return FullPrefill(tuple(ids), positions, logits, token, output.cache, ms)

    def continuation_logits(self, prefill: FullPrefill, token_ids: Sequence[int]) -> Tensor:
        """Logits that predict each of these tokens behind the prompt: float32 [len(token_ids), vocab_size].

        The tokens stand right behind the last position. `prefill` stays as it is.
        """
        forced = tuple(token_ids[:-1])
        if not forced:
            return prefill.logits[None]
        start = prefill.positions[-1] + 1
        with self._stock():
            output = self._model(
                self._row(forced),
                position_ids=self._row(range(start, start + len(forced))),
                attention_mask=self._causal(len(forced), len(prefill.ids)),
                cache=copy.deepcopy(prefill.cache),
            )
            return torch.cat([prefill.logits[None], output.logits[0].float()])

    def reply(self, prefill: FullPrefill, max_new_tokens: int) -> Reply:
        """Goes on with stock `generate`, greedily, until the model ends or `max_new_tokens` are there. Only for
        positions without gaps. `prefill.cache` is used up."""
        ids = [*prefill.ids, prefill.token]
        if max_new_tokens == 1 or prefill.token in self._end_ids:
            return Reply((prefill.token,), ())
        stamps = _Stamps()
        with self._stock():
            output = self._model.generate(
                self._row(ids),
                attention_mask=torch.ones_like(self._row(ids)),
                cache=prefill.cache,
                generation_config=self._greedy(max_new_tokens - 1),
                stopping_criteria=StoppingCriteriaList([stamps]),
            )
        later = [(second - first) * 1000 for first, second in zip(stamps.times, stamps.times[1:], strict=False)]
        return Reply(tuple(output[0, len(prefill.ids) :].tolist()), tuple(later))

    def _greedy(self, max_new_tokens: int) -> GenerationConfig:
        return GenerationConfig(  # type: ignore[no-untyped-call]
            max_new_tokens=max_new_tokens,
            do_sample=False,
            # A model's own generation config may name a penalty, and our side has none.
            repetition_penalty=1.0,
            eos_token_id=self._end_ids or None,
            # Only rows that end before others are padded, and there is one row.
            pad_token_id=0,
        )

    def _row(self, numbers: Sequence[int]) -> Tensor:
        return torch.tensor([list(numbers)], device=self._model.device)

    def _causal(self, rows: int, before: int) -> Tensor:
        """Additive [1, 1, rows, before + rows]."""
        dtype = self._model.dtype
        mask = torch.full((rows, before + rows), torch.finfo(dtype).min, dtype=dtype, device=self._model.device)
        return mask.triu(before + 1)[None, None]

    def _stock(self) -> AbstractContextManager[None]:
        return stock_attention(self._model)


@contextmanager
def stock_attention(model: Any) -> Iterator[None]:
    """Within it the model attends as transformers ships it, and no gradients are kept."""
    found = model.config._attn_implementation
    changed = found not in ("sdpa", "eager")
    if changed:
        model.set_attn_implementation("sdpa")
    try:
        with torch.no_grad():
            yield
    finally:
        if changed:
            model.set_attn_implementation(found)


class _Stamps(StoppingCriteria):
    """When each token was there. It never stops anything."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def __call__(self, input_ids: Tensor, scores: Any, **kwargs: Any) -> Any:
        self.times.append(time.perf_counter())
        return torch.zeros(input_ids.shape[0], dtype=torch.bool, device=input_ids.device)
