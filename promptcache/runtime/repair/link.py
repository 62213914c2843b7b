"""Repair `link:k`: the first tokens behind every seam (idea: LegoLink of EPIC, Hu et al., 2024)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from promptcache.layout.encodings.encoding import EncodingPass
from promptcache.layout.plan import RequestPlan
from promptcache.runtime.repair.base import Probe
from promptcache.runtime.repair.cost import spare
from promptcache.runtime.repair.seams import behind_seams, spread


@dataclass(frozen=True)
class Link:
    """The first `tokens` behind every seam, or as many fewer, the same number behind each, as keep the request within
    `times` what it costs anyway: hundreds of modules of a line each would be half computed again.

    Encoded with nothing before it, a text's first token draws attention as the first token of a prompt does, and in the
    middle of a prompt that misleads.
    """

    tokens: int
    times: float | None = None

    @property
    def name(self) -> str:
        """See RepairPolicy."""
        return f"link:{self.tokens}" if self.times is None else f"link:{self.tokens}:{self.times:g}"

    def choose(self, plan: RequestPlan, passes: Sequence[EncodingPass], probe: Probe | None) -> Collection[int]:
        """See RepairPolicy."""
        chosen = behind_seams(plan, passes, self.tokens)
        if self.times is None or len(chosen) <= (room := spare(plan, self.times)):
            return chosen
        return spread(plan, passes, room)
