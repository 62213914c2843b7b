"""Stored tokens of a plan that are computed again."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from promptcache.layout.encodings.encoding import EncodingPass
from promptcache.layout.plan import RequestPlan, Run, exact_runs, is_exact


def inexact_runs(plan: RequestPlan, passes: Sequence[EncodingPass]) -> list[Run]:
    """The reused runs whose states a full prefill of this prompt would not have: only these gain by repair.

    What an earlier request computed of this prompt is not among them: it saw the whole prompt before it.
    """
    exact = exact_runs(plan.runs, passes)
    return [
        run
        for run, right in zip(plan.runs, exact, strict=True)
        if run.kind == "reused" and run.segment is not None and run.segment.encoding_pass >= 0 and not right
    ]


def repaired(plan: RequestPlan, positions: Collection[int], passes: Sequence[EncodingPass]) -> RequestPlan:
    """The plan with its reused tokens at these positions computed again."""
    chosen = sorted(set(positions))
    runs: list[Run] = []
    for run in plan.runs:
        low, high = bisect_left(chosen, run.start), bisect_left(chosen, run.end)
        if run.kind != "reused" or low == high:
            runs.append(run)
            continue
        done = run.start
        for start, end in _stretches(chosen[low:high]):
            if done < start:
                runs.append(_part(run, done, start))
            runs.append(replace(_part(run, start, end), kind="repaired"))
            done = end
        if done < run.end:
            runs.append(_part(run, done, run.end))
    # Runs that an earlier request computed are exact only where the plan says so already.
    return replace(plan, runs=tuple(runs), exact=plan.exact or is_exact(runs, passes))


def _part(run: Run, start: int, end: int) -> Run:
    """The tokens of a run at the positions `[start, end)`."""
    low = start - run.start
    return replace(run, start=start, ids=run.ids[low : end - run.start], offset=run.offset + low)


def _stretches(positions: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Neighbouring positions, as half-open ranges."""
    start = positions[0]
    for number, position in enumerate(positions):
        if number + 1 == len(positions) or positions[number + 1] != position + 1:
            yield start, position + 1
            start = positions[number + 1] if number + 1 < len(positions) else start
