"""What gaps between positions cost by themselves: one prompt, the same tokens, more and more free positions between its
modules and before its question, by full prefill and with reuse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from torch import Tensor, tensor

from eval.config import EvalConfig
from eval.engine import loaded, max_positions
from eval.fidelity import compare
from eval.longbench.fit import ANSWER_TOKENS, fit, gold_answer_ids
from eval.longbench.gap_case import MODULES, build_gap_case
from eval.longbench.parts import PromptParts
from eval.longbench.sample import Sample, choose_samples
from eval.options import check_options
from eval.progress import work_through
from eval.reports.gaps import write_report
from eval.results import RunFolder
from eval.sides import Sides
from promptcache.errors import RequestError

_DATASETS = ("2wikimqa", "hotpotqa", "musique", "multi_news", "passage_retrieval_en")
_GAPS = (0, 64, 512, 2048)


def run(config: EvalConfig, results: RunFolder) -> None:
    """Measures what is missing, then writes the report."""
    check_options(config, ("gaps",))
    gaps = _gaps(config)
    samples = {sample.part: sample for sample in choose_samples(config, _DATASETS)}
    sides: Sides | None = None
    for part in work_through(results, list(samples), "gaps"):
        sides = sides or Sides.open(config)
        results.add(part, _measure(sides, samples[part], gaps, config.truncate))
    rows = {row["part"]: row for row in results.rows()}
    write_report(results, [rows[part] for part in samples], gaps)


def _gaps(config: EvalConfig) -> tuple[int, ...]:
    found = config.options.get("gaps", _GAPS)
    good = isinstance(found, Sequence) and not isinstance(found, str)
    if not good or not all(type(gap) is int and gap >= 0 for gap in found):
        raise RequestError(f"options: gaps is {found!r}", hint="it is a list of whole numbers from 0 up")
    # Everything is compared with the prompt that has none.
    return (0, *sorted(set(found) - {0}))


def _measure(sides: Sides, sample: Sample, gaps: Sequence[int], truncate: str) -> dict[str, Any]:
    """Both sides of one record at every gap, held against the full prefill without gaps; reuse also against the full
    prefill at its own positions."""
    parts = fit(sides.engine, replace(sample, max_length=_room(sides, sample, max(gaps))), truncate)
    answer = gold_answer_ids(sides.engine.tokenizer, sample.task, sample.record, parts.after)
    if not answer:
        raise RequestError(f"{sample.part} has an empty gold answer", hint="leave the record out with --limit")
    found: dict[str, Any] = {}
    reference: tuple[tuple[int, ...], Tensor] | None = None
    for gap in gaps:
        ids, full, reuse = _at(sides, sample, parts, gap, answer)
        reference = reference or (ids, full)
        assert reference[0] == ids, "a gap changed the tokens"
        targets = tensor(answer)
        found[str(gap)] = {
            "full": asdict(compare(reference[1], full, targets)),
            "reuse": asdict(compare(reference[1], reuse, targets)),
            "reuse_at_its_positions": asdict(compare(full, reuse, targets)),
        }
    assert reference is not None
    return {
        "dataset": sample.task.name,
        "record": sample.record.id,
        "tokens": len(reference[0]),
        "answer_tokens": len(answer),
        "gaps": found,
    }


def _at(
    sides: Sides, sample: Sample, parts: PromptParts, gap: int, answer: Sequence[int]
) -> tuple[tuple[int, ...], Tensor, Tensor]:
    """The prompt's ids, and the logits of the full prefill and of reuse at that gap."""
    case = build_gap_case(sample.task, parts, gap, str(sample.record.index))
    with loaded(sides.engine, case.schema):
        plan = sides.engine.plan(case.prompt)
        full = sides.full_logits(sides.full_prefill(plan), answer)
        return plan.token_ids, full, sides.reuse_logits(case.prompt, plan.num_computed, answer)


def _room(sides: Sides, sample: Sample, gap: int) -> int | None:
    """Tokens that a prompt may have so that it fits the model with the widest gaps."""
    limit = max_positions(sides.engine)
    if limit is None:
        return sample.max_length
    room = limit - MODULES * gap - ANSWER_TOKENS
    if room < 1:
        raise RequestError(
            f"{MODULES} gaps of {gap} positions leave no room: the model has {limit}",
            hint="give smaller gaps in the options",
        )
    return min(sample.max_length or room, room)
