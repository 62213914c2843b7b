"""One record answered in every way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any

import torch
from torch import Tensor

from eval.config import EvalConfig
from eval.engine import loaded, max_positions
from eval.fidelity import compare
from eval.longbench.fit import ANSWER_TOKENS, encode_text, gold_answer_ids, overhead
from eval.longbench.parts import PromptParts, prompt_parts
from eval.longbench.sample import Sample
from eval.longbench.scoring import score_record
from eval.sides import Sides
from eval.tradeoff.cases import build
from eval.tradeoff.cut import cut
from eval.tradeoff.way import Way
from promptcache.errors import RequestError
from promptcache.layout.plan import RequestPlan


class Bench:
    """One model, in an engine for each encoding and layout."""

    def __init__(self, config: EvalConfig, ways: Sequence[Way], scored: Sequence[str]) -> None:
        """The answers of the ways called `scored` are written and scored."""
        self.config, self.ways, self.scored = config, ways, scored
        self.sides = Sides.open(config)
        self.full: dict[tuple[tuple[int, ...], tuple[int, ...]], tuple[Tensor, dict[str, Any]]] = {}

    def measure(self, sample: Sample) -> dict[str, Any]:
        """The record's figures, as JSON values. `full_ms` is one full prefill by the stock model."""
        parts = self._cut(sample)
        answer = gold_answer_ids(self.sides.engine.tokenizer, sample.task, sample.record, parts.after)
        if not answer:
            raise RequestError(f"{sample.part} has an empty gold answer", hint="leave the record out with --limit")
        found: dict[str, Any] = {}
        full: dict[str, Any] = {}
        self.full.clear()
        for group, ways in groupby(sorted(self.ways, key=lambda way: way.group), key=lambda way: way.group):
            measured, reference = _Group(self, sample, parts, answer, group, list(ways)).measure()
            found |= measured
            if group == ("modular", "isolated", "reserved"):
                full = reference
        return {
            "dataset": sample.task.name,
            "record": sample.record.id,
            "index": sample.record.index,
            "max_length": sample.max_length,
            "answer_tokens": len(answer),
            "full": full,
            "ways": found,
        }

    def _cut(self, sample: Sample) -> PromptParts:
        engine, task = self.sides.engine, sample.task
        limit = max_positions(engine)
        answer_room = max(task.max_new_tokens, ANSWER_TOKENS)
        most = min(n for n in (sample.max_length, limit and limit - answer_room) if n is not None)
        return cut(
            task,
            prompt_parts(task, sample.record),
            sample.record.answers,
            most - overhead(engine, task),
            lambda text: encode_text(engine.tokenizer, text),
        )


class _Group:
    """The ways that share stored states."""

    def __init__(
        self,
        bench: Bench,
        sample: Sample,
        parts: PromptParts,
        answer: Sequence[int],
        group: tuple[str, str, str],
        ways: Sequence[Way],
    ) -> None:
        self.bench, self.sample, self.answer, self.ways = bench, sample, answer, ways
        kind, encoding, layout = group
        self.sides = bench.sides.with_encoding(encoding, layout)
        self.engine = self.sides.engine
        self.case = build(sample.task, parts, kind, f"{sample.record.index}-{sample.max_length}")

    def measure(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Figures by way, and those of the full prefill."""
        with loaded(self.engine, self.case.schema) as schema:
            plan = self.plan = self.engine.plan(self.case.prompt, repair="none")
            full, reference = self._full(plan)
            stored = sum(run.length for run in plan.runs if run.segment)
            modules = len({run.segment.owner for run in plan.runs if run.segment and run.segment.owner})
            found = {way.name: self._way(way, full) for way in self.ways}
            for way, times in self._times().items():
                found[way] |= {"ttft_ms": times, "stored": stored, "modules": modules, "encode_ms": schema.encode_ms}
        return found, reference

    def _full(self, plan: RequestPlan) -> tuple[Tensor, dict[str, Any]]:
        """Logits of the full prefill along the answer, and its figures; once for all groups of the same tokens."""
        same = plan.token_ids, plan.position_ids
        if same not in self.bench.full:
            prefill = self.sides.full_prefill(plan)
            full = self.sides.full_logits(prefill, self.answer)
            nll = compare(full, full, torch.tensor(self.answer)).nll
            figures: dict[str, Any] = {"tokens": plan.num_tokens, "ms": prefill.ms, "nll": nll}
            if self.bench.scored and plan.position_ids == tuple(range(plan.num_tokens)):
                text = self.sides.full_text(prefill, self.sample.task)
                figures["score"] = 100 * score_record(self.sample.task, text, self.sample.record)
            self.bench.full[same] = full, figures
        return self.bench.full[same]

    def _way(self, way: Way, full: Tensor) -> dict[str, Any]:
        prompt, task = self.case.prompt, self.sample.task
        done = self.sides.reuse_reply(prompt, self.plan, 1, repair=way.repair)
        logits = self.sides.reuse_logits(prompt, done.usage.computed_tokens, self.answer, way.repair)
        figures = asdict(compare(full, logits, torch.tensor(self.answer)))
        figures |= {
            "full_nll": compare(full, full, torch.tensor(self.answer)).nll,
            "repaired": done.usage.repaired_tokens,
            "again": done.usage.computed_tokens - done.usage.fresh_tokens,
            "exact": done.exact,
        }
        if way.name in self.bench.scored:
            text = self.sides.reuse_reply(prompt, self.plan, task.max_new_tokens, task.stop, way.repair).text
            figures["score"] = 100 * score_record(task, text, self.sample.record)
        return figures

    def _times(self) -> dict[str, list[float]]:
        """Milliseconds to the first token; the ways take turns, and another one begins each repeat."""
        times: dict[str, list[float]] = {way.name: [] for way in self.ways}
        for repeat in range(self.bench.config.repeats):
            for number in range(len(self.ways)):
                way = self.ways[(repeat + number) % len(self.ways)]
                times[way.name].append(
                    self.sides.reuse_reply(self.case.prompt, self.plan, 1, repair=way.repair).timings.ttft_ms
                )
        return times
