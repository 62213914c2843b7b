"""The two sides of a timed comparison. Every run is proved by a hook on the model."""

from __future__ import annotations

from typing import Any

from eval.hook import TokenHook
from eval.stock_model import StockModel
from promptcache import PromptCache
from promptcache.runtime.given import PromptLike
from promptcache.runtime.schemas import LoadedSchema

_WARMUP_TOKENS = 512
_LATER_TOKENS = 8


class StockSide:
    """Full prefill and `generate` of the stock model, on the ids of `ours`, at positions without gaps."""

    def __init__(self, model: StockModel, engine: PromptCache, ours: OurSide) -> None:
        self._model, self._engine, self._ours = model, engine, ours
        self._ids = ours.plan.token_ids
        self._ttft_ms: list[float] = []
        self._later: list[tuple[float, ...]] = []

    def warm_up(self) -> None:
        """A short prefill and two steps: a whole prefill more would take as long as a timed one."""
        self._model.reply(self._model.prefill(self._ids[:_WARMUP_TOKENS]), 3)

    def take(self) -> None:
        """One timed run. Raises MeasurementError when it did not compute every token."""
        with TokenHook(self._engine.model) as hook:
            prefill = self._model.prefill(self._ids)
            hook.expect("stock prefill", [len(self._ids)])
            # One more than our side got before its reply ended: the first interval is not counted.
            reply = self._model.reply(prefill, self._ours.reply_tokens + 1)
            hook.expect("stock generate", [1] * (len(reply.token_ids) - 1))
        self._ttft_ms.append(prefill.ms)
        self._later.append(reply.later_ms)

    def figures(self) -> dict[str, Any]:
        """All times in milliseconds, one a repeat; `later_ms` is that of a later token."""
        later = [sum(times) / len(times) for times in self._later if times]
        return {"tokens": len(self._ids), "ttft_ms": self._ttft_ms, "later_ms": later}


class OurSide:
    """A prompt with reuse."""

    def __init__(self, engine: PromptCache, prompt: PromptLike, schema: LoadedSchema, repair: str = "none") -> None:
        self._engine, self._prompt, self._schema, self._repair = engine, prompt, schema, repair
        self.plan = engine.plan(prompt, repair="none")
        self.computed = self.plan.num_computed
        self.reply_tokens = 1
        self._times: dict[str, list[float]] = {}
        self.forget()

    def forget(self) -> None:
        """Drops the times so far: they were warm-up."""
        self._times = {name: [] for name in ("ttft_ms", "plan_ms", "assemble_ms", "prefill_ms", "later_ms")}

    def take(self) -> None:
        """One timed run. Raises MeasurementError when it computed more or less than it should or says."""
        with TokenHook(self._engine.model) as hook:
            done = self._engine.generate(self._prompt, max_new_tokens=1 + _LATER_TOKENS, repair=self._repair)
            later = done.usage.completion_tokens - 1
            if self._repair == "none":
                hook.expect("reuse", [self.computed] + [1] * later)
            else:
                hook.expect_total("reuse", done.usage.computed_tokens + later)
        self.computed = done.usage.computed_tokens
        self.reply_tokens = done.usage.completion_tokens
        for name in ("ttft_ms", "plan_ms", "assemble_ms", "prefill_ms"):
            self._times[name].append(getattr(done.timings, name))
        if later:
            self._times["later_ms"].append(done.timings.decode_ms / later)

    def figures(self) -> dict[str, Any]:
        """As the stock side's, with the parts of the time to first token and what encoding cost."""
        return {
            "tokens": self.plan.num_tokens,
            "fresh": self.plan.num_computed,
            "computed": self.computed,
            "modules": len({run.segment.owner for run in self.plan.runs if run.segment and run.segment.owner}),
            "exact": self.plan.exact,
            "encode_ms": self._schema.encode_ms,
            "stored_bytes": self._schema.num_bytes,
            "reply_tokens": self.reply_tokens,
            **self._times,
        }
