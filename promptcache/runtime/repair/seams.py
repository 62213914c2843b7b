"""Tokens behind the seams of a prompt: for policies that repair them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence

from promptcache.layout.encodings.encoding import EncodingPass
from promptcache.layout.plan import RequestPlan, Run, exact_runs


def behind_seams(plan: RequestPlan, passes: Sequence[EncodingPass], each: int) -> Collection[int]:
    """Positions of the first `each` reused tokens of what does not follow the token that it followed when it was
    encoded: of every module but the one that opens the prompt, and of the text behind an argument, an empty parameter,
    an import."""
    chosen: list[int] = []
    left = 0
    before: Run | None = None
    for run, exact in zip(plan.runs, exact_runs(plan.runs, passes), strict=True):
        if run.segment is None or run.segment.encoding_pass < 0 or exact:
            left = 0
        elif run.offset == 0 and not _joins(before, run, passes):
            left = each
        taken = min(left, run.length)
        left -= taken
        if run.kind == "reused":
            chosen += range(run.start, run.start + taken)
        before = run
    return chosen


def spread(plan: RequestPlan, passes: Sequence[EncodingPass], room: int) -> Collection[int]:
    """The same number of tokens behind every seam, as many as make at most `room` in all; short modules leave theirs to
    the others. Nothing where there is not one for each."""

    def repaired(each: int) -> Collection[int]:
        return behind_seams(plan, passes, each)

    return repaired(bisect_right(range(1, room + 1), room, key=lambda each: len(repaired(each))))


def _joins(before: Run | None, run: Run, passes: Sequence[EncodingPass]) -> bool:
    """Whether a segment follows the token, at the distance, that it followed when it was encoded."""
    assert run.segment is not None
    made, offset = passes[run.segment.encoding_pass], run.segment.offset
    if before is None or offset == 0:
        return before is None and offset == 0
    distance = made.positions[offset] - made.positions[offset - 1]
    return before.ids[-1] == made.ids[offset - 1] and run.start - (before.end - 1) == distance
