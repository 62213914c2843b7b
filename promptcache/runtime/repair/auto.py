"""Repair `auto:S`: as much as a share of a full prefill's time allows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from promptcache.layout.encodings.encoding import EncodingPass
from promptcache.layout.plan import RequestPlan
from promptcache.layout.repaired import inexact_runs
from promptcache.runtime.repair.base import Probe
from promptcache.runtime.repair.link import Link
from promptcache.runtime.repair.query import Query

LEAST_PASS = 48
"""A shorter pass takes as long as one of so many tokens, since every pass reads all weights: what 16 tokens take on two
cores with the default model."""


@dataclass(frozen=True)
class Auto:
    """All passes of the request together take about the `share` of what its full prefill would: time is taken to go
    with tokens. `query` where its first pass costs at most half of what there is to spend on repair (with less left,
    the same tokens did more good behind the seams: passages of LongBench, default model), else `link`, else nothing."""

    share: float

    @property
    def name(self) -> str:
        """See RepairPolicy."""
        return f"auto:{self.share:g}"

    def choose(self, plan: RequestPlan, passes: Sequence[EncodingPass], probe: Probe | None) -> Collection[int]:
        """See RepairPolicy."""
        if not inexact_runs(plan, passes):
            return ()
        stored = plan.count("reused") + plan.count("repaired")
        once = max(plan.num_computed, LEAST_PASS)
        left = int(self.share * plan.num_tokens) - once
        if left >= 2 * once:
            return Query(min((left - once) / stored, 1)).choose(plan, passes, probe)
        seams = len(Link(1).choose(plan, passes, probe))
        each = left // seams if seams else 0
        return Link(each).choose(plan, passes, probe) if each >= 1 else ()
