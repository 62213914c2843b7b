"""What reuse does to the answers: LongBench's score, and how far predictions move from the stock model's full
prefill on the tokens of the gold answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any

from torch import Tensor, tensor

from eval.config import EvalConfig
from eval.engine import loaded
from eval.fidelity import compare
from eval.longbench.case import Case, build_case
from eval.longbench.fit import fit, gold_answer_ids
from eval.longbench.parts import PromptParts
from eval.longbench.sample import Sample, choose_samples
from eval.longbench.scoring import score_record
from eval.longbench.split import Split
from eval.options import check_options, names_option
from eval.progress import work_through
from eval.reports.quality import write_report
from eval.results import RunFolder
from eval.rows import FULL, NO_CONTEXT, ROWS, SCORED, ReuseRow
from eval.sides import Sides
from promptcache.errors import RequestError
from promptcache.layout.plan import RequestPlan


def run(config: EvalConfig, results: RunFolder) -> None:
    """Measures what is missing, then writes the report."""
    check_options(config, ("long_max_length", "long_limit", "scored"))
    scored = names_option(config, "scored", SCORED, (FULL, *(row.name for row in ROWS), NO_CONTEXT))
    samples = {sample.part: sample for sample in choose_samples(config)}
    _refuse_other_rows(results)
    sides: Sides | None = None
    for part in work_through(results, list(samples), "quality"):
        sides = sides or Sides.open(config)
        sample = samples[part]
        parts = fit(sides.engine, sample, config.truncate)
        results.add(part, _Record(sides, sample, parts, scored).measure())
    rows = {row["part"]: row for row in results.rows()}
    write_report(results, [rows[part] for part in samples])


def _refuse_other_rows(results: RunFolder) -> None:
    """The rows are no setting, so a folder from before one was added looks like this run's."""
    names = {FULL, NO_CONTEXT, *(row.name for row in ROWS)}
    if any(set(part["rows"]) != names for part in results.rows()):
        raise RequestError(
            f"{results.path} holds a run with other rows than {', '.join(sorted(names))}",
            hint="choose another folder with --out",
        )


class _Record:
    """All rows of one record. Each split is held against a full prefill of its own ids; without an answer token there
    is a score at most."""

    def __init__(self, sides: Sides, sample: Sample, parts: PromptParts, scored: Sequence[str]) -> None:
        self._sides, self._sample, self._parts, self._scored = sides, sample, parts, scored
        self._answer = gold_answer_ids(sides.engine.tokenizer, sample.task, sample.record, parts.after)
        self._rows: dict[str, Any] = {}

    def measure(self) -> dict[str, Any]:
        """The record's figures, as JSON values."""
        full = self._split("whole")
        self._split("modular")
        self._without_context(full)
        return {
            "dataset": self._sample.task.name,
            "record": self._sample.record.id,
            "max_length": self._sample.max_length,
            "answer_tokens": len(self._answer),
            "rows": self._rows,
        }

    def _split(self, split: Split) -> Tensor | None:
        """The rows of one split, and for `whole` that of its full prefill, whose logits come back. States are encoded
        once for all rows that share them."""
        case = build_case(self._sample.task, self._parts, split, f"{self._sample.record.index}-{split}")
        full: Tensor | None = None
        shared = groupby((row for row in ROWS if row.split == split), key=lambda row: row.encoding)
        for number, (encoding, rows) in enumerate(shared):
            sides = self._sides.with_encoding(encoding)
            with loaded(sides.engine, case.schema):
                plan = sides.engine.plan(case.prompt, repair="none")
                if number == 0:  # ids and positions are the same whatever a module saw
                    full = self._full_prefill(FULL if split == "whole" else None, plan)
                for row in rows:
                    self._reuse(sides, case, plan, row, full)
        return full

    def _full_prefill(self, name: str | None, plan: RequestPlan, beside: Tensor | None = None) -> Tensor | None:
        """The stock model over a plan: its logits along the answer, and, named, a row of its own, held against
        `beside` or itself."""
        prefill = self._sides.full_prefill(plan)
        logits = self._sides.full_logits(prefill, self._answer) if self._answer else None
        if name is not None:
            text = self._sides.full_text(prefill, self._sample.task) if name in self._scored else None
            self._add(name, text, plan.num_tokens, logits if beside is None else beside, logits)
        return logits

    def _reuse(self, sides: Sides, case: Case, plan: RequestPlan, row: ReuseRow, full: Tensor | None) -> None:
        """One way to answer, held against a full prefill of the same ids at the same positions."""
        task, answer = self._sample.task, self._answer
        scored = row.name in self._scored
        done = sides.reuse_reply(case.prompt, plan, task.max_new_tokens if scored else 1, task.stop, row.repair)
        usage = done.usage
        logits = sides.reuse_logits(case.prompt, usage.computed_tokens, answer, row.repair) if answer else None
        more = {"exact": done.exact, "repaired": usage.repaired_tokens, "computed": usage.computed_tokens}
        self._add(row.name, done.text if scored else None, usage.prompt_tokens, full, logits, **more)

    def _without_context(self, full: Tensor | None) -> None:
        parts = PromptParts(self._parts.before, "", self._parts.after)
        case = build_case(self._sample.task, parts, "whole", f"{self._sample.record.index}-empty")
        with loaded(self._sides.engine, case.schema):
            plan = self._sides.engine.plan(case.prompt)
        self._full_prefill(NO_CONTEXT, plan, full)

    def _add(
        self, name: str, text: str | None, tokens: int, full: Tensor | None, logits: Tensor | None, **more: object
    ) -> None:
        self._rows[name] = {
            "score": None if text is None else 100 * score_record(self._sample.task, text, self._sample.record),
            "text": text,
            "tokens": tokens,
            **_fidelity(full, logits, self._answer),
            **more,
        }


def _fidelity(full: Tensor | None, logits: Tensor | None, answer: Sequence[int]) -> dict[str, float]:
    """`logits` beside `full`, and the full prefill's own negative log-likelihood on the same ids."""
    if full is None or logits is None:
        return {}
    targets = tensor(answer)
    found = asdict(compare(full, logits, targets))
    del found["tokens"]
    return {**found, "full_nll": compare(full, full, targets).nll}
