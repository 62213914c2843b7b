"""Intervals for figures that two methods got on the same records (Efron and Tibshirani 1993, percentile method).

Records are drawn with replacement, both methods' values of a record together, so what is hard or easy about a record
cancels out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_DRAWS = 1_000_000


@dataclass(frozen=True)
class Interval:
    """A figure over all records and the interval around it."""

    value: float
    low: float
    high: float


def mean(values: Sequence[float], *, seed: int = 0, resamples: int = 10_000, level: float = 0.95) -> Interval:
    """The mean of one method's values."""
    return _interval([values], lambda means: means[0], seed, resamples, level)


def difference(
    first: Sequence[float],
    second: Sequence[float],
    *,
    seed: int = 0,
    resamples: int = 10_000,
    level: float = 0.95,
) -> Interval:
    """mean(second) - mean(first), record by record."""
    return _interval([first, second], lambda means: means[1] - means[0], seed, resamples, level)


def reduction(
    first: Sequence[float],
    second: Sequence[float],
    *,
    seed: int = 0,
    resamples: int = 10_000,
    level: float = 0.95,
) -> Interval:
    """The share of mean(first) that is gone in mean(second): 1 - mean(second) / mean(first).

    1 is all of it, 0 none, below 0 more than before; not a number where the first mean is 0, and such draws are left
    out of the interval.
    """
    return _interval([first, second], _gone, seed, resamples, level)


def _gone(means: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        gone: Floats = np.where(means[0] == 0, np.nan, 1 - means[1] / means[0])
    return gone


def _interval(
    columns: Sequence[Sequence[float]],
    statistic: Callable[[Floats], Floats],
    seed: int,
    resamples: int,
    level: float,
) -> Interval:
    """`statistic` takes one mean a column, `[columns]` or `[columns, resamples]`."""
    values = np.array([list(column) for column in columns], dtype=np.float64)
    assert values.ndim == 2 and values.shape[1] > 0, "at least one record, and as many for every method"
    records = values.shape[1]
    draw = np.random.default_rng(seed)
    # In portions: all resamples at once would take gigabytes for a whole benchmark, one at a time seconds a figure.
    portion = max(1, _DRAWS // records)
    means = [
        values[:, draw.integers(records, size=(min(portion, resamples - done), records))].mean(axis=2)
        for done in range(0, resamples, portion)
    ]
    spread = statistic(np.concatenate(means, axis=1))
    tail = (1 - level) / 2
    spread = spread[~np.isnan(spread)]
    low, high = np.quantile(spread, [tail, 1 - tail]) if spread.size else (np.nan, np.nan)
    return Interval(float(statistic(values.mean(axis=1))), float(low), float(high))
