"""Attention of many rows at once against plain softmax, each row alone."""

from __future__ import annotations

from random import Random

import pytest
import torch

from promptcache.kv import batch as batches
from promptcache.kv.batch import BatchPass, SharedView, attend_batch
from promptcache.kv.tails import Tails
from tests.kv.plain import plain_attend

HEADS, KV_HEADS, DIM, VALUE_DIM = 6, 2, 16, 16


def states(length: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    return tuple(torch.randn(1, KV_HEADS, length, DIM, dtype=dtype) for _ in range(2))  # type: ignore[return-value]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_each_row_sees_its_own_and_what_it_imports(seed: int, dtype: torch.dtype, monkeypatch) -> None:
    # Results are put together at the end, or before.
    monkeypatch.setattr(batches, "_MOST_PARTS", seed % 3 + 1)
    random = Random(seed)
    torch.manual_seed(seed)
    tails = Tails([(KV_HEADS, DIM, VALUE_DIM)], dtype, [torch.device("cpu")])
    own: dict[int, list[tuple[torch.Tensor, torch.Tensor]]] = {}
    counts = {row: random.choice([1, 2, 5, 40, 150]) for row in range(random.choice([1, 4, 9]))}
    for turn in range(3):
        buckets = tails.open(counts)
        order = [row for bucket in buckets for row in bucket.rows]
        new = {row: states(counts[row], dtype) for row in order}
        for row in order:
            own.setdefault(row, []).append(new[row])
        tails.write(0, *(torch.cat([new[row][which] for row in order], 2) for which in range(2)))
        query = torch.randn(1, HEADS, sum(counts.values()), DIM, dtype=dtype)
        starts = {row: sum(counts[r] for r in order[:number]) for number, row in enumerate(order)}
        views, seen = [], {row: [] for row in order}
        for length in (3, 200, 1100):
            stored = states(length, dtype)
            who = [row for row in order if random.random() < 0.7]
            firsts = {row: random.choice([0, 0, counts[row] // 2]) for row in who}
            tokens = [starts[row] + place for row in who for place in range(firsts[row], counts[row])]
            if tokens:
                whole = len(tokens) == query.shape[2]
                views.append(SharedView((stored[0],), (stored[1],), None if whole else torch.tensor(tokens)))
            for row in who:
                seen[row].append((stored, firsts[row]))
        masks = {}
        if turn == 0 and random.random() < 0.5:
            row = random.choice(order)
            masks[row] = torch.zeros(counts[row], counts[row]).fill_diagonal_(0)
            masks[row][torch.rand_like(masks[row]) < 0.5] = torch.finfo(dtype).min
            masks[row].fill_diagonal_(0)
        found = attend_batch(query, BatchPass(tails, buckets, views, masks=masks), 0, 0.3)
        for row in order:
            part = slice(starts[row], starts[row] + counts[row])
            expected = alone(query[:, :, part], own[row], seen[row], masks.get(row))
            tolerance = 1e-5 if dtype == torch.float32 else 4e-2
            torch.testing.assert_close(found[:, :, part].float(), expected, atol=tolerance, rtol=tolerance)
        counts = dict.fromkeys(counts, 1)


def alone(query, own, seen, mask):
    """One row by one softmax over all that it sees."""
    rows = query.shape[2]
    keys = torch.cat([*(stored[0] for stored, _ in seen), *(each[0] for each in own)], 2).float()
    values = torch.cat([*(stored[1] for stored, _ in seen), *(each[1] for each in own)], 2).float()
    lowest = torch.finfo(torch.float32).min
    among = torch.full((rows, rows), lowest).triu(1) if mask is None else (mask < 0) * lowest
    columns = [
        torch.where(torch.arange(rows)[:, None] < first, lowest, 0.0).expand(rows, stored[0].shape[2])
        for stored, first in seen
    ]
    earlier = sum(each[0].shape[2] for each in own[:-1])
    whole = torch.cat([*columns, torch.zeros(rows, earlier), among], 1)
    repeated = (each.repeat_interleave(HEADS // KV_HEADS, 1) for each in (keys, values))
    return plain_attend(query.float(), *repeated, scale=0.3, mask=whole)[0]


def test_a_shared_view_is_one_call_of_the_kernel_for_all_rows(monkeypatch) -> None:
    calls = []
    attend = batches.attend

    def spy(query, key, value, **more):
        calls.append(key.shape)
        return attend(query, key, value, **more)

    monkeypatch.setattr(batches, "attend", spy)
    monkeypatch.setattr("promptcache.kv.segments.attend", spy)
    tails = Tails([(KV_HEADS, DIM, VALUE_DIM)], torch.float32, [torch.device("cpu")])
    buckets = tails.open(dict.fromkeys(range(16), 5))
    tails.write(0, *states(16 * 5, torch.float32))
    view = SharedView(*((each,) for each in states(2000, torch.float32)))
    attend_batch(torch.randn(1, HEADS, 16 * 5, DIM), BatchPass(tails, buckets, [view]), 0, 0.3)
    assert [tuple(shape[:1]) + tuple(shape[2:3]) for shape in calls] == [(16, 5), (1, 2000)]
