"""Many questions behind one context: in a batch, one by one, and with no context at all."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Protocol

import torch

from eval.floor.our_side import OurSide
from eval.floor.question import LATER_TOKENS, Question
from eval.hook import TokenHook
from eval.stock_model import stock_attention
from promptcache.runtime.reply.completion import Completion
from promptcache.runtime.reply.replies import MOST_TOKENS

_NEW_TOKENS = 1 + LATER_TOKENS


class ManySide(Protocol):
    """One way to answer many questions. Lists in `figures` have one value a turn since `forget`."""

    def take(self, questions: Sequence[Question]) -> None:
        """Answers all of them once. Raises MeasurementError when something else was computed than should be."""

    def forget(self) -> None:
        """Drops the times so far: they were warm-up."""

    def figures(self) -> dict[str, Any]:
        """As JSON values; times in milliseconds."""


class _Answering:
    """What both of our sides keep of a turn. `answers` are the last turn's token ids."""

    def __init__(self, ours: OurSide) -> None:
        self.ours = ours
        self.answers: list[tuple[int, ...]] = []
        self.forget()

    def forget(self) -> None:
        """See `ManySide`."""
        self._prefill_ms: list[float] = []
        self._later_ms: list[float | None] = []

    def figures(self) -> dict[str, Any]:
        """See `ManySide`. `prefill_ms` is the time until every question has its first token, `later_ms` that of a
        later token, None where no answer had one."""
        return {"prefill_ms": self._prefill_ms, "later_ms": self._later_ms}

    def _add(self, done: Sequence[Completion], prefill_ms: float, decode_ms: float) -> None:
        later = sum(each.usage.completion_tokens - 1 for each in done)
        self.answers = [each.token_ids for each in done]
        self._prefill_ms.append(prefill_ms)
        self._later_ms.append(decode_ms / later if later else None)


class BatchSide(_Answering):
    """All questions in one batch, from strings on."""

    def take(self, questions: Sequence[Question]) -> None:
        """See `ManySide`."""
        engine = self.ours.engine
        with TokenHook(engine.model) as hook:
            start = time.perf_counter()
            prompts = [self.ours.prompt(question.text) for question in questions]
            built_ms = (time.perf_counter() - start) * 1000
            done = engine.generate_batch(prompts, max_batch=len(prompts), max_new_tokens=_NEW_TOKENS)
            whole_ms = (time.perf_counter() - start) * 1000
            steps = [each.usage.completion_tokens - 1 for each in done]
            fresh = sum(len(question.ids) for question in questions)
            if fresh <= MOST_TOKENS:
                running = [sum(step < each for each in steps) for step in range(max(steps))]
                hook.expect("ours in a batch", [fresh, *running])
            else:  # questions join in several passes
                hook.expect_total("ours in a batch", fresh + sum(steps))
        prefill_ms = built_ms + max(each.timings.ttft_ms for each in done)
        self._add(done, prefill_ms, whole_ms - prefill_ms)


class SoloSide(_Answering):
    """The same questions one after the other; times are sums."""

    def take(self, questions: Sequence[Question]) -> None:
        """See `ManySide`."""
        done: list[Completion] = []
        built_ms = 0.0
        for question in questions:
            with TokenHook(self.ours.engine.model) as hook:
                start = time.perf_counter()
                prompt = self.ours.prompt(question.text)
                built_ms += (time.perf_counter() - start) * 1000
                done.append(self.ours.engine.generate(prompt, max_new_tokens=_NEW_TOKENS))
                hook.expect("ours one by one", [len(question.ids), *[1] * (done[-1].usage.completion_tokens - 1)])
        prefill_ms = built_ms + sum(each.timings.ttft_ms for each in done)
        self._add(done, prefill_ms, sum(each.timings.decode_ms for each in done))


class BatchFloor:
    """The stock model over the questions alone, as rows of one pass. Shorter questions are filled up."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.forget()

    def forget(self) -> None:
        """See `ManySide`."""
        self._prefill_ms: list[float] = []

    def take(self, questions: Sequence[Question]) -> None:
        """See `ManySide`."""
        longest = max(len(question.ids) for question in questions)
        rows = [[*question.ids, *[question.ids[-1]] * (longest - len(question.ids))] for question in questions]
        with TokenHook(self._model) as hook, stock_attention(self._model):
            start = time.perf_counter()
            logits = self._model(torch.tensor(rows, device=self._model.device), logits_to_keep=1).logits
            logits[:, -1].float().argmax(-1).tolist()
            self._prefill_ms.append((time.perf_counter() - start) * 1000)
            hook.expect("floor of a batch", [len(rows) * longest])

    def figures(self) -> dict[str, Any]:
        """See `ManySide`."""
        return {"prefill_ms": self._prefill_ms}
