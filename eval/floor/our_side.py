"""Ours, whole and in parts."""

from __future__ import annotations

import random
import time
from typing import Any

from eval.floor.grid import Variant
from eval.floor.question import LATER_TOKENS, Question
from eval.hook import TokenHook
from promptcache import Prompt, PromptCache
from promptcache.layout.plan import RequestPlan
from promptcache.runtime.schemas import LoadedSchema

_PARTS = ("plan_ms", "assemble_ms", "prefill_ms", "sample_ms")


class OurSide:
    """A context of modules with reuse, from strings to the first token. Every module is imported; where positions allow
    any order, in a shuffled one.

    `sample_ms` is what the prefill takes beside the model's pass: its input, logits to float32, sampling.
    """

    def __init__(self, engine: PromptCache, variant: Variant, schema: LoadedSchema) -> None:
        self.engine, self.variant = engine, variant
        self.name = f"ours {variant.name}"
        self._schema = schema
        self._imports = [module for module in schema.layout.modules if module]
        if variant.layout != "reserved":
            random.Random(0).shuffle(self._imports)
        self.forget()

    def forget(self) -> None:
        """See `Side`."""
        self._times: dict[str, list[float | None]] = {name: [] for name in ("ttft_ms", *_PARTS, "later_ms")}
        self._firsts: list[int] = []

    def plan(self, text: str) -> RequestPlan:
        """The plan of a question."""
        return self.engine.plan(self.prompt(text))

    def question(self, text: str) -> Question:
        """The question with the ids that it has behind this context."""
        plan = self.plan(text)
        return Question(text, tuple(token for run in plan.runs if run.kind == "fresh" for token in run.ids))

    def take(self, question: Question, later: bool) -> None:
        """See `Side`."""
        # A prepacked engine runs a model of its own, which shares the embedding and little else.
        with TokenHook(self.engine.model) as hook, _FirstPass(self.engine._adapter.model) as first:
            start = time.perf_counter()
            prompt = self.prompt(question.text)
            built_ms = (time.perf_counter() - start) * 1000
            done = self.engine.generate(prompt, max_new_tokens=1 + later * LATER_TOKENS)
            steps = done.usage.completion_tokens - 1
            hook.expect(self.name, [len(question.ids)] + [1] * steps)
        found = done.timings
        sample_ms = found.prefill_ms - first.ms
        self._add("ttft_ms", built_ms + found.ttft_ms)
        self._add("plan_ms", built_ms + found.plan_ms)
        self._add("assemble_ms", found.assemble_ms)
        self._add("prefill_ms", found.prefill_ms - sample_ms)
        self._add("sample_ms", sample_ms)
        self._add("later_ms", found.decode_ms / steps if steps else None)
        self._firsts.append(done.token_ids[0])

    def figures(self) -> dict[str, Any]:
        """See `Side`; and how the context is held."""
        plan = self.plan("?")
        return {
            "modules": self.variant.modules,
            "layout": self.variant.layout,
            "path": self.variant.path or self.engine.attention,
            "context": plan.count("reused"),
            "exact": plan.exact,
            "encode_ms": self._schema.encode_ms,
            "stored_bytes": self._schema.num_bytes,
            **self._times,
            "first_tokens": self._firsts,
        }

    def prompt(self, text: str) -> Prompt:
        """All modules, then a question."""
        return Prompt(schema=self._schema.name, imports=self._imports, text=text)

    def _add(self, name: str, ms: float | None) -> None:
        self._times[name].append(ms)


class _FirstPass:
    """How long the first forward pass took (`ms`), while it is held with `with`."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._times: list[float] = []

    @property
    def ms(self) -> float:
        """From its begin to its end."""
        begin, end = self._times[:2]
        return (end - begin) * 1000

    def __enter__(self) -> _FirstPass:
        stamps = (self._model.register_forward_pre_hook, self._model.register_forward_hook)
        self._handles = [register(self._stamp) for register in stamps]
        return self

    def __exit__(self, *_: object) -> None:
        for handle in self._handles:
            handle.remove()

    def _stamp(self, *_: object) -> None:
        self._times.append(time.perf_counter())
