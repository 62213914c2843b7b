"""Repair `query:r`: the stored tokens to which the new text attends most (idea: ProphetKV), and that saw least."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from promptcache.layout.encodings.encoding import EncodingPass
from promptcache.layout.plan import RequestPlan
from promptcache.layout.repaired import inexact_runs
from promptcache.runtime.repair.base import Probe


@dataclass(frozen=True)
class Query:
    """The `share` of the prompt's stored tokens that matter most to the fresh ones: the attention that falls on a token
    from them, over all layers and heads, in a pass over the fresh tokens that comes first, divided by one more than the
    number of tokens before it in its own module. States that are right already are never chosen.

    How far a stored state is from a full prefill's falls with what it saw: on passages of LongBench it was 1 for a
    module's first token, 0.36 for the fifth to eighth, 0.15 for the fiftieth, 0.07 for the four hundredth (of the mean
    state's norm, default model). A choice by attention alone left three times the divergence at equal cost.
    """

    share: float

    @property
    def name(self) -> str:
        """See RepairPolicy."""
        return f"query:{self.share:g}"

    def choose(self, plan: RequestPlan, passes: Sequence[EncodingPass], probe: Probe | None) -> Collection[int]:
        """See RepairPolicy."""
        candidates = [p for run in inexact_runs(plan, passes) for p in range(run.start, run.end)]
        count = round(self.share * (plan.count("reused") + plan.count("repaired")))
        if count >= len(candidates):
            return candidates
        if count == 0 or probe is None:
            return ()
        attention = probe.attention(plan)
        places = _places(plan)
        weights = {p: attention[p] / (1 + places[p]) for p in candidates}
        return sorted(candidates, key=lambda position: (-weights[position], position))[:count]


def _places(plan: RequestPlan) -> dict[int, int]:
    """By position of each stored token, how many stand before it in its encoding pass; what the pass only saw at its
    beginning, such as anchors, does not count."""
    stored = [(run, run.segment) for run in plan.runs if run.segment]
    first: dict[int, int] = {}
    for _, segment in stored:
        first[segment.encoding_pass] = min(segment.offset, first.get(segment.encoding_pass, segment.offset))
    return {
        run.start + n: segment.offset + run.offset + n - first[segment.encoding_pass]
        for run, segment in stored
        for n in range(run.length)
    }
