"""The two sides of a comparison of answers. Every call is proved by a hook on the model."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from eval.config import EvalConfig
from eval.engine import IN_MEMORY, REPAIR, end_ids, open_engine
from eval.hook import MeasurementError, TokenHook
from eval.longbench.tasks import Task
from eval.stock_model import FullPrefill, StockModel
from promptcache import Prompt, PromptCache
from promptcache.layout.plan import RequestPlan
from promptcache.runtime.reply.completion import Completion


class Sides:
    """One model, with reuse and without. Calls raise MeasurementError when a side computed more or less than it
    should: the full prefill every token, reuse only what its plan does not take from the store."""

    def __init__(self, engine: PromptCache) -> None:
        self.engine = engine
        self.stock = StockModel(engine.model, end_ids(engine))
        self._others: dict[tuple[str, str], Sides] = {}

    @classmethod
    def open(cls, config: EvalConfig) -> Sides:
        """The sides on the run's model."""
        return cls(open_engine(config))

    def full_prefill(self, plan: RequestPlan) -> FullPrefill:
        """The stock model over a plan's ids at its positions, nothing reused."""
        with TokenHook(self.engine.model) as hook:
            prefill = self.stock.prefill(plan.token_ids, plan.position_ids)
            hook.expect("full prefill", [plan.num_tokens])
        return prefill

    def full_logits(self, prefill: FullPrefill, answer: Sequence[int]) -> Tensor:
        """What the full prefill predicts along an answer: float32 [len(answer), vocab_size]."""
        return self.stock.continuation_logits(prefill, answer)

    def reuse_logits(self, prompt: Prompt, computed: int, answer: Sequence[int], repair: str = "none") -> Tensor:
        """What reuse predicts along an answer: float32 [len(answer), vocab_size]. `computed` are the tokens that the
        prompt itself takes."""
        with TokenHook(self.engine.model) as hook:
            logits = self.engine.continuation_logits(prompt, answer, repair=repair)
            hook.expect_total("reuse along the answer", computed + len(answer) - 1)
        return logits

    def full_text(self, prefill: FullPrefill, task: Task) -> str:
        """The full prefill's own answer, by stock `generate`. It uses `prefill` up."""
        ids = self.stock.reply(prefill, task.max_new_tokens).token_ids
        text: str = self.engine.tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text[: min((at for stop in task.stop if (at := text.find(stop)) >= 0), default=len(text))]

    def reuse_reply(
        self, prompt: Prompt, plan: RequestPlan, max_new_tokens: int, stop: Sequence[str] = (), repair: str = "none"
    ) -> Completion:
        """The answer with reuse; `plan` is that without repair."""
        with TokenHook(self.engine.model) as hook:
            done = self.engine.generate(prompt, max_new_tokens=max_new_tokens, stop=stop, repair=repair)
            hook.expect_total("reuse", done.usage.computed_tokens + done.usage.completion_tokens - 1)
        least = plan.num_computed
        if done.usage.fresh_tokens != plan.count("fresh") or (repair == "none" and done.usage.computed_tokens != least):
            raise MeasurementError(
                f"reuse: {least} tokens had to be computed, and {done.usage.computed_tokens} were",
                hint="it reused something else than its plan says",
            )
        return done

    def with_encoding(self, encoding: str, layout: str = "reserved") -> Sides:
        """The same model in an engine of that encoding and layout."""
        if (encoding, layout) == (self.engine.encoding, self.engine.layout):
            return self
        if (encoding, layout) not in self._others:
            engine = PromptCache(
                self.engine.model,
                self.engine.tokenizer,
                encoding=encoding,
                layout=layout,
                repair=REPAIR,
                store=IN_MEMORY,
            )
            self._others[encoding, layout] = Sides(engine)
        return self._others[encoding, layout]
