"""Repair `link:k`: the first tokens behind every seam (idea: LegoLink of EPIC, Hu et al., 2024)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from promptcache.layout.encodings.encoding import EncodingPass
from promptcache.layout.plan import RequestPlan, Run, exact_runs
from promptcache.runtime.repair.base import Probe


@dataclass(frozen=True)
class Link:
    """The first `tokens` of what does not follow the token that it followed when it was encoded: of every module but
    the one that opens the prompt, and of the text behind an argument, an empty parameter, an import.

    Encoded with nothing before it, a text's first token draws attention as the first token of a prompt does, and in the
    middle of a prompt that misleads.
    """

    tokens: int

    @property
    def name(self) -> str:
        """See RepairPolicy."""
        return f"link:{self.tokens}"

    def choose(self, plan: RequestPlan, passes: Sequence[EncodingPass], probe: Probe | None) -> Collection[int]:
        """See RepairPolicy."""
        chosen: list[int] = []
        left = 0
        before: Run | None = None
        for run, exact in zip(plan.runs, exact_runs(plan.runs, passes), strict=True):
            if run.segment is None or run.segment.encoding_pass < 0 or exact:
                left = 0
            elif run.offset == 0 and not _joins(before, run, passes):
                left = self.tokens
            taken = min(left, run.length)
            left -= taken
            if run.kind == "reused":
                chosen += range(run.start, run.start + taken)
            before = run
        return chosen


def _joins(before: Run | None, run: Run, passes: Sequence[EncodingPass]) -> bool:
    """Whether a segment follows the token, at the distance, that it followed when it was encoded."""
    assert run.segment is not None
    made, offset = passes[run.segment.encoding_pass], run.segment.offset
    if before is None or offset == 0:
        return before is None and offset == 0
    distance = made.positions[offset] - made.positions[offset - 1]
    return before.ids[-1] == made.ids[offset - 1] and run.start - (before.end - 1) == distance
