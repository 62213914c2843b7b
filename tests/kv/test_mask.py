"""Masks count positions, never slots."""

from __future__ import annotations

import torch

from promptcache.kv.mask import visibility_mask


def seen(queries, keys, window=None):
    mask = visibility_mask(torch.tensor(queries), torch.tensor(keys), torch.float32, window)
    assert mask.shape == (1, 1, len(queries), len(keys)) and mask.dtype == torch.float32
    assert set(mask.unique().tolist()) <= {0.0, torch.finfo(torch.float32).min}
    return (mask[0, 0] == 0).tolist()


def test_a_query_sees_positions_up_to_its_own():
    assert seen([4, 9], [9, 0, 4, 5]) == [[False, True, True, False], [True, True, True, True]]


def test_a_window_counts_positions_across_gaps():
    assert seen([10], [2, 3, 9, 10], window=8) == [[False, True, True, True]]
