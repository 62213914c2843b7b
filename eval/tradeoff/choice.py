"""A policy chosen on one half of the records, to be reported on the other."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean, median

from eval.reports.by_dataset import Row


def halves(rows: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """The records of even and of odd number in their files: to choose on, and to report on."""
    return [row for row in rows if row["index"] % 2 == 0], [row for row in rows if row["index"] % 2]


def column(rows: Sequence[Row], way: str, key: str) -> list[float]:
    """One figure of one way, a value a record."""
    return [float(row["ways"][way][key]) for row in rows]


def share_again(rows: Sequence[Row], way: str) -> float:
    """Tokens computed beside the fresh ones, every pass that chooses counted, as a share of the stored ones."""
    return sum(column(rows, way, "again")) / sum(column(rows, way, "stored"))


def share_repaired(rows: Sequence[Row], way: str) -> float:
    """Stored tokens that were computed again, as a share of all stored ones."""
    return sum(column(rows, way, "repaired")) / sum(column(rows, way, "stored"))


def ttft_ratio(rows: Sequence[Row], way: str, base: str = "none") -> float:
    """The median over records of a way's median time to first token over that of `base`."""
    return median(median(row["ways"][way]["ttft_ms"]) / median(row["ways"][base]["ttft_ms"]) for row in rows)


def least_kl(rows: Sequence[Row], ways: Sequence[str]) -> str | None:
    """The way of least mean KL, None of none."""
    return min(ways, key=lambda way: mean(column(rows, way, "mean_kl")), default=None)


def within_share(rows: Sequence[Row], ways: Sequence[str], budget: float) -> str | None:
    """The way of least KL among those that compute at most this share of the stored tokens again."""
    return least_kl(rows, [way for way in ways if share_again(rows, way) <= budget])


def within_time(rows: Sequence[Row], ways: Sequence[str], times: float) -> str | None:
    """The way of least KL among those that take at most so many times as long as `none`."""
    return least_kl(rows, [way for way in ways if ttft_ratio(rows, way) <= times])
