"""Tokens of a plan that were computed before: by a prefix, an earlier turn, an earlier request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain

from promptcache.layout.encodings.encoding import Segment
from promptcache.layout.plan import RequestPlan, Run, finish_runs


def common_prefix(left: Sequence[int], right: Sequence[int]) -> int:
    """How many tokens two sequences share from their start."""
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def reuse_known(plan: RequestPlan, known: Mapping[int, Sequence[Segment]]) -> RequestPlan:
    """The plan with fresh tokens reused as far as they are known, to the token.

    `known` maps the start of a fresh run to segments side by side from there; they saw what stands before them in
    this plan. Behind the first token that differs all stays fresh.
    """
    runs: list[Run] = []
    for run in plan.runs:
        segments = known.get(run.start, ()) if run.kind == "fresh" else ()
        ids = tuple(chain.from_iterable(segment.ids for segment in segments))
        shared = common_prefix(run.ids, ids)
        done = 0
        for segment in segments:
            take = min(segment.length, shared - done)
            if take == 0:
                break
            assert segment.start == run.start + done, "known segments lie side by side"
            runs.append(Run(segment.start, segment.ids[:take], "reused", segment))
            done += take
        if done < run.length:
            runs.append(replace(run, start=run.start + done, ids=run.ids[done:], offset=run.offset + done))
    return replace(plan, runs=finish_runs(runs))
