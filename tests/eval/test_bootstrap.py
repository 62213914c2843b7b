"""Intervals of paired figures."""

from __future__ import annotations

import math

import numpy as np
import pytest

from eval.bootstrap import Interval, difference, mean, reduction


def test_what_is_the_same_everywhere_has_no_width() -> None:
    assert mean([0.5] * 4) == Interval(0.5, 0.5, 0.5)
    hard_and_easy = [0.0, 10.0, 100.0]
    more = difference(hard_and_easy, [x + 1 for x in hard_and_easy], resamples=500)
    assert [more.value, more.low, more.high] == pytest.approx([1, 1, 1])
    # A draw of nothing but zeros says nothing about a share, and is left out.
    gone = reduction(hard_and_easy, [x / 4 for x in hard_and_easy], resamples=500)
    assert [gone.value, gone.low, gone.high] == pytest.approx([0.75, 0.75, 0.75])


def test_the_interval_of_a_mean_is_the_textbook_one() -> None:
    values = np.random.default_rng(1).normal(3.0, 1.0, size=400).tolist()
    interval = mean(values, resamples=2_000)
    half = 1.96 * float(np.std(values)) / math.sqrt(len(values))
    assert interval.value == pytest.approx(float(np.mean(values)))
    assert interval.low == pytest.approx(interval.value - half, abs=half / 5)
    assert interval.high == pytest.approx(interval.value + half, abs=half / 5)


def test_the_same_seed_gives_the_same_interval() -> None:
    first, second = [0.1, 0.5, 0.2, 0.9], [0.0, 0.4, 0.4, 0.1]
    assert difference(first, second, resamples=300) == difference(first, second, resamples=300)
    assert difference(first, second, resamples=300) != difference(first, second, resamples=300, seed=1)


def test_a_wider_level_is_wider() -> None:
    values = [0.1, 0.5, 0.2, 0.9, 0.3]
    wide, narrow = mean(values, level=0.99, resamples=500), mean(values, level=0.5, resamples=500)
    assert wide.low < narrow.low < narrow.high < wide.high


def test_the_odd_ends() -> None:
    assert mean([2.0], resamples=10) == Interval(2.0, 2.0, 2.0)
    assert math.isnan(reduction([0.0, 0.0], [1.0, 1.0], resamples=10).value)
    with pytest.raises(AssertionError):
        mean([])
    with pytest.raises(ValueError):
        difference([1.0], [1.0, 2.0])
