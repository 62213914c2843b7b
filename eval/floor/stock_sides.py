"""What transformers alone offers: the full prefill, two recipes that keep a cache, and no context at all."""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import DynamicCache

from eval.floor.question import LATER_TOKENS, Question, mean_or_none
from eval.hook import TokenHook
from eval.stock_model import FullPrefill, StockModel, stock_attention
from promptcache import PromptCache


@dataclass(frozen=True)
class Context:
    """Tokens and transformers' own cache of their states, which nobody writes to."""

    ids: tuple[int, ...]
    cache: DynamicCache

    @classmethod
    def of(cls, model: Any, ids: Sequence[int]) -> Context:
        """One pass of the stock model. Raises MeasurementError when it did not compute every token."""
        cache = DynamicCache()
        with stock_attention(model), TokenHook(model) as hook:
            model(_row(model, ids), cache=cache, use_cache=True, logits_to_keep=1)
            hook.expect("prefill of the context", [len(ids)])
        return cls(tuple(ids), cache)


class FullSide:
    """The stock model over context and question, from token ids to the first token."""

    name = "stock"

    def __init__(self, model: Any, stock: StockModel, context: Sequence[int]) -> None:
        self._model, self._stock, self._context = model, stock, tuple(context)
        self.forget()

    def forget(self) -> None:
        """See `Side`."""
        self._ttft_ms: list[float] = []

    def take(self, question: Question, later: bool) -> None:
        """See `Side`."""
        ids = (*self._context, *question.ids)
        with TokenHook(self._model) as hook:
            self._ttft_ms.append(self._stock.prefill(ids).ms)
            hook.expect("stock prefill", [len(ids)])

    def figures(self) -> dict[str, Any]:
        """See `Side`."""
        return {"ttft_ms": self._ttft_ms}


class FloorSide(FullSide):
    """The same model over the question alone: what no reuse can go below."""

    name = "floor"

    def __init__(self, model: Any, stock: StockModel) -> None:
        super().__init__(model, stock, ())


class RecipeSide:
    """A `DynamicCache` that holds the context's states. Each question is run on a deep copy of it, or on it, and what
    was added is then cropped. From the question's text to the first token; cropping comes after that.

    Later tokens are those of stock `generate` on the deep copy.
    """

    def __init__(self, engine: PromptCache, stock: StockModel, context: Context, *, crop: bool) -> None:
        """With `crop` it gets a cache of its own, since its cache is written to."""
        self.name = "crop" if crop else "deepcopy"
        self._model, self._tokenizer, self._stock = engine.model, engine.tokenizer, stock
        self._context, self._crop = context.ids, crop
        self._cache = copy.deepcopy(context.cache) if crop else context.cache
        self.forget()

    def forget(self) -> None:
        """See `Side`."""
        self._times: dict[str, list[float | None]] = {"ttft_ms": [], "later_ms": []}
        self._firsts: list[int] = []

    def take(self, question: Question, later: bool) -> None:
        """See `Side`."""
        with TokenHook(self._model) as hook:
            prefill = self._prefill(question)
            hook.expect(f"{self.name} recipe", [len(question.ids)])
            later_ms = None
            if self._crop:
                prefill.cache.crop(-len(question.ids))
            elif later:
                # The first interval of `generate` contains its start and is not counted.
                reply = self._stock.reply(prefill, LATER_TOKENS + 2)
                hook.expect("stock generate", [1] * (len(reply.token_ids) - 1))
                later_ms = mean_or_none(reply.later_ms)
        assert self._cache.get_seq_length() == len(self._context), "the recipe's cache was not put back"
        self._times["ttft_ms"].append(prefill.ms)
        self._times["later_ms"].append(later_ms)
        self._firsts.append(prefill.token)

    def figures(self) -> dict[str, Any]:
        """See `Side`."""
        return {**self._times, "first_tokens": self._firsts}

    def _prefill(self, question: Question) -> FullPrefill:
        with stock_attention(self._model):
            start = time.perf_counter()
            # What is run are the ids that all sides run; a tokenizer may give others for a text that stands alone.
            self._tokenizer(question.text, add_special_tokens=False)
            cache = self._cache if self._crop else copy.deepcopy(self._cache)
            output = self._model(_row(self._model, question.ids), cache=cache, use_cache=True, logits_to_keep=1)
            logits = output.logits[0, -1].float()
            token = int(logits.argmax())
            ms = (time.perf_counter() - start) * 1000
        ids = (*self._context, *question.ids)
        return FullPrefill(ids, tuple(range(len(ids))), logits, token, cache, ms)


def _row(model: Any, ids: Sequence[int]) -> torch.Tensor:
    return torch.tensor([list(ids)], device=model.device)
