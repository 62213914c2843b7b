"""The two sides of a comparison of answers. Every call is proved by a hook on the model."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from eval.config import EvalConfig
from eval.engine import end_ids, open_engine
from eval.hook import TokenHook
from eval.longbench.tasks import Task
from eval.stock_model import FullPrefill, StockModel
from promptcache import Prompt, PromptCache
from promptcache.layout.plan import RequestPlan


class Sides:
    """One model, with reuse and without. Calls raise MeasurementError when a side computed more or less than it
    should: the full prefill every token, reuse only what its plan does not take from the store."""

    def __init__(self, engine: PromptCache) -> None:
        self.engine = engine
        self._stock = StockModel(engine.model, end_ids(engine))

    @classmethod
    def open(cls, config: EvalConfig) -> Sides:
        """The sides on the run's model."""
        return cls(open_engine(config))

    def full_prefill(self, plan: RequestPlan) -> FullPrefill:
        """The stock model over a plan's ids at its positions, nothing reused."""
        with TokenHook(self.engine.model) as hook:
            prefill = self._stock.prefill(plan.token_ids, plan.position_ids)
            hook.expect("full prefill", [plan.num_tokens])
        return prefill

    def full_logits(self, prefill: FullPrefill, answer: Sequence[int]) -> Tensor:
        """What the full prefill predicts along an answer: float32 [len(answer), vocab_size]."""
        return self._stock.continuation_logits(prefill, answer)

    def reuse_logits(self, prompt: Prompt, plan: RequestPlan, answer: Sequence[int]) -> Tensor:
        """What reuse predicts along an answer: float32 [len(answer), vocab_size]."""
        with TokenHook(self.engine.model) as hook:
            logits = self.engine.continuation_logits(prompt, answer)
            hook.expect("reuse along the answer", [_computed(plan) + len(answer) - 1])
        return logits

    def full_text(self, prefill: FullPrefill, task: Task) -> str:
        """The full prefill's own answer, by stock `generate`. It uses `prefill` up."""
        ids = self._stock.reply(prefill, task.max_new_tokens).token_ids
        text: str = self.engine.tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text[: min((at for stop in task.stop if (at := text.find(stop)) >= 0), default=len(text))]

    def reuse_text(self, prompt: Prompt, plan: RequestPlan, task: Task) -> str:
        """The answer with reuse."""
        with TokenHook(self.engine.model) as hook:
            done = self.engine.generate(prompt, max_new_tokens=task.max_new_tokens, stop=task.stop)
            hook.expect("reuse", [_computed(plan)] + [1] * (done.usage.completion_tokens - 1))
        return done.text


def _computed(plan: RequestPlan) -> int:
    return plan.num_tokens - plan.count("reused")
