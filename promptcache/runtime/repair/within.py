"""Repair `within:f`: as much behind every seam as keeps the request within so many times what it costs anyway."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from promptcache.layout.encodings.encoding import EncodingPass
from promptcache.layout.plan import RequestPlan
from promptcache.runtime.repair.base import Probe
from promptcache.runtime.repair.cost import pass_cost
from promptcache.runtime.repair.link import Link


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
        room = int((self.times - 1) * pass_cost(plan.num_computed))
        return spread(plan, passes, room)


def spread(plan: RequestPlan, passes: Sequence[EncodingPass], room: int) -> Collection[int]:
    """The same number of tokens behind every seam, as many as make at most `room` in all; short modules leave theirs to
    the others. Nothing where there is not one for each."""

    def repaired(each: int) -> Collection[int]:
        return Link(each).choose(plan, passes, None)

    return repaired(bisect_right(range(1, room + 1), room, key=lambda each: len(repaired(each))))
