"""The paper's GPU figures on one GPU and in a few minutes, on a model with random weights of the paper's shape.

Each step is bounded by the time that is left, and what is finished is kept: the same command goes on with the rest.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from eval.config import EvalConfig
from eval.gpu import batch, copies, oracle
from eval.gpu.bench import PLACEMENTS, Bench
from eval.gpu.clock import Clock
from eval.gpu.settings import Settings
from eval.hook import MeasurementError
from eval.progress import work_through
from eval.reports.gpu import write_report
from eval.results import RunFolder

_SHORT = 4096
"""Prompts up to so many tokens come before the batch."""

Step = tuple[str, int, Callable[[Bench, Clock], dict[str, Any]]]
"""Its kind and size, by which its time is foretold, and what it does."""


def run(config: EvalConfig, results: RunFolder) -> None:
    """Measures what is missing and what there is time for. Raises MeasurementError at the end where reuse was not
    right."""
    settings = Settings.of(config)
    clock = Clock(settings.minutes)
    steps = _steps(settings)
    failed: dict[str, str] = {}
    bench: Bench | None = None
    for part in work_through(results, list(steps), "gpu"):
        bench = bench or Bench(config, settings)
        kind, size, work = steps[part]
        if not clock.allows(kind, size):
            continue
        started = clock.left()
        try:
            results.add(part, work(bench, clock))
        except torch.OutOfMemoryError as fault:
            # What does not fit is a finding.
            results.add(part, {"skipped": str(fault).partition("\n")[0].partition(". ")[0]})
        except Exception as fault:
            # A GPU may be there for these minutes only: one step that fails must not cost the others.
            failed[part] = f"{type(fault).__name__}: {fault}".partition("\n")[0]
            with (results.path / "failures.log").open("a", encoding="utf-8") as log:
                print(part, traceback.format_exc(), sep="\n", file=log)
        clock.took(kind, size, started)
        write_report(results, settings, steps, failed)
    write_report(results, settings, steps, failed)
    wrong = [row["part"] for row in results.rows() if not row.get("passed", True)]
    if wrong:
        raise MeasurementError(
            f"reuse is not what the stock model gives: {', '.join(wrong)}",
            hint="the report says by how much; no other figure of this run means anything",
        )
    if failed:
        raise MeasurementError(
            f"steps that failed: {', '.join(failed)}",
            hint=f"{results.path / 'failures.log'} says where; the same command tries them again",
        )


def _steps(settings: Settings) -> dict[str, Step]:
    """What proves comes first, then what can be compared with the paper; the longest prompts come last, since they may
    not fit."""
    steps: dict[str, Step] = {"copies": ("copies", settings.copied, lambda bench, clock: copies.measure(bench))}
    for place in PLACEMENTS:
        for layout in oracle.LAYOUTS:
            steps[f"oracle/{place}/{layout}"] = "oracle", sum(settings.oracle), partial(_check, place, layout)
    timed: dict[str, Step] = {
        f"ttft/{tokens}/{place}": ("ttft", tokens, partial(_measure, tokens, place))
        for tokens in settings.contexts
        for place in PLACEMENTS
    }
    short = {part: step for part, step in timed.items() if step[1] <= _SHORT}
    return {**steps, **short, "batch": ("batch", settings.rows * settings.batch_context, batch.measure), **timed}


def _check(place: str, layout: str, bench: Bench, clock: Clock) -> dict[str, Any]:
    return oracle.check(bench, place, layout)


def _measure(tokens: int, place: str, bench: Bench, clock: Clock) -> dict[str, Any]:
    return bench.measure(tokens, place, clock)
