"""Repair policies that take turns, as in `link:8+query:0.1`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from promptcache.layout.encodings.encoding import EncodingPass
from promptcache.layout.plan import RequestPlan
from promptcache.layout.repaired import repaired
from promptcache.runtime.repair.base import Probe, RepairPolicy


@dataclass(frozen=True)
class Combined:
    """Each policy chooses in the plan that those before it have repaired: a pass that it asks for computes their tokens
    as well, which costs more and tells more. `query:0.1+link:8` asks first and adds the seams then."""

    policies: tuple[RepairPolicy, ...]

    @property
    def name(self) -> str:
        """See RepairPolicy."""
        return "+".join(policy.name for policy in self.policies)

    def choose(self, plan: RequestPlan, passes: Sequence[EncodingPass], probe: Probe | None) -> Collection[int]:
        """See RepairPolicy."""
        chosen: set[int] = set()
        for policy in self.policies:
            more = policy.choose(plan, passes, probe)
            plan = repaired(plan, more, passes)
            chosen.update(more)
        return chosen
