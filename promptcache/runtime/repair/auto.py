"""Repair `auto:S`: as much as a share of a full prefill's time allows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from promptcache.layout.encodings.encoding import EncodingPass
from promptcache.layout.plan import RequestPlan
from promptcache.layout.repaired import inexact_runs
from promptcache.runtime.repair.base import Probe
from promptcache.runtime.repair.cost import pass_cost
from promptcache.runtime.repair.query import Query
from promptcache.runtime.repair.seams import spread


@dataclass(frozen=True)
class Auto:
    """All passes of the request together cost about the `share` of what its full prefill would. `query` where its first
    pass costs at most half of what there is to spend on repair: with less left, the same tokens do more good behind the
    seams (passages of LongBench, default model), the same number behind each."""

    share: float

    @property
    def name(self) -> str:
        """See RepairPolicy."""
        return f"auto:{self.share:g}"

    def choose(self, plan: RequestPlan, passes: Sequence[EncodingPass], probe: Probe | None) -> Collection[int]:
        """See RepairPolicy."""
        if not inexact_runs(plan, passes):
            return ()
        once = pass_cost(plan.num_computed)
        left = int(self.share * pass_cost(plan.num_tokens)) - once
        if left < 2 * once:
            return spread(plan, passes, left)
        stored = plan.count("reused") + plan.count("repaired")
        return Query(min((left - once) / stored, 1)).choose(plan, passes, probe)
