"""Repair `full`: everything is computed again, which equals a full prefill."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from promptcache.layout.encodings.encoding import EncodingPass
from promptcache.layout.plan import RequestPlan
from promptcache.runtime.repair.base import Probe


@dataclass(frozen=True)
class Full:
    """See RepairPolicy."""

    name: str = "full"

    def choose(self, plan: RequestPlan, passes: Sequence[EncodingPass], probe: Probe | None) -> Collection[int]:
        """See RepairPolicy."""
        return [position for run in plan.runs if run.kind == "reused" for position in range(run.start, run.end)]
