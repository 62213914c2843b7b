"""Medians, and ratios of what was measured in one turn."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

Times = Sequence[float | None]
"""Milliseconds, one a turn; None where a turn has no figure."""


def middle(times: Times) -> float | None:
    """The median of the turns that have a figure; None of none."""
    found = [ms for ms in times if ms is not None]
    return median(found) if found else None


def paired(top: Times, bottom: Times) -> float | None:
    """The median of the turns' ratios; None where no turn has both."""
    found = [a / b for a, b in zip(top, bottom, strict=True) if a is not None and b is not None]
    return median(found) if found else None


def added(first: Times, second: Times) -> list[float | None]:
    """The turns' sums."""
    return [None if a is None or b is None else a + b for a, b in zip(first, second, strict=True)]


def by_repeat(times: Times, rounds: int) -> list[float | None]:
    """The medians of each repeat, which is so many turns: for what is measured once a repeat."""
    return [middle(times[at : at + rounds]) for at in range(0, len(times), rounds)]
