"""Repair `none`: stored states as they are (the paper)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from promptcache.layout.encodings.encoding import EncodingPass
from promptcache.layout.plan import RequestPlan
from promptcache.runtime.repair.base import Probe


@dataclass(frozen=True)
class NoRepair:
    """See RepairPolicy."""

    name: str = "none"

    def choose(self, plan: RequestPlan, passes: Sequence[EncodingPass], probe: Probe | None) -> Collection[int]:
        """See RepairPolicy."""
        return ()


NO_REPAIR = NoRepair()
