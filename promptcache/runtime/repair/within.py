"""Repair `within:f`: as much behind every seam as keeps the request within so many times what it costs anyway."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from promptcache.layout.encodings.encoding import EncodingPass
from promptcache.layout.plan import RequestPlan
from promptcache.runtime.repair.base import Probe
from promptcache.runtime.repair.cost import spare
from promptcache.runtime.repair.seams import spread


@dataclass(frozen=True)
class Within:
    """`link` with as many tokens, the same number behind every seam, as a pass of `times` the cost without repair has
    room for: a short question behind many modules repairs one or two each, a long one behind a few repairs dozens."""

    times: float

    @property
    def name(self) -> str:
        """See RepairPolicy."""
        return f"within:{self.times:g}"

    def choose(self, plan: RequestPlan, passes: Sequence[EncodingPass], probe: Probe | None) -> Collection[int]:
        """See RepairPolicy."""
        return spread(plan, passes, spare(plan, self.times))
