"""Figures of a finished part of the `floor` suite."""

from __future__ import annotations

from typing import Any

from eval.floor.ratios import Times, added, by_repeat, paired

Row = dict[str, Any]
"""A finished part, or one of the ways to hold its context (an entry of its `ours`)."""


def times(row: Row, side: str, key: str = "ttft_ms") -> Times:
    """A side's times by turn; for `stock` one a repeat."""
    found: Times = row["sides"][side][key]
    return found


def limit(row: Row) -> Times:
    """Floor and kernel of each turn together."""
    return added(times(row, "floor"), times(row, "kernel"))


def stock_ratio(row: Row, ours: Row) -> float | None:
    """The full prefill over ours, whose median in the repeat is taken."""
    return paired(times(row, "stock"), by_repeat(ours["ttft_ms"], row["rounds"]))
