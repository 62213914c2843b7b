"""Repair `query:r`: the stored tokens to which the new text attends most (idea: ProphetKV)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from promptcache.layout.encodings.encoding import EncodingPass
from promptcache.layout.plan import RequestPlan
from promptcache.layout.repaired import inexact_runs
from promptcache.runtime.repair.base import Probe


@dataclass(frozen=True)
class Query:
    """The `share` of the prompt's stored tokens on which most of the fresh tokens' attention falls, over all layers and
    heads, in a pass over the fresh tokens that comes first. States that are right already are never chosen."""

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
        return sorted(candidates, key=lambda position: (-attention[position], position))[:count]
