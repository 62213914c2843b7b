"""Tails in shared buffers: each row's states are its own, whoever comes, grows or goes."""

from __future__ import annotations

from random import Random

import pytest
import torch

from promptcache.kv.tails import Tails, _capacity

SHAPES = [(2, 8, 4), (3, 8, 8)]


def filled(tails: Tails, row: int) -> list[torch.Tensor]:
    block = tails.states(row)
    return [*block.keys, *block.values]


@pytest.mark.parametrize("seed", range(12))
def test_rows_that_come_grow_and_go(seed: int) -> None:
    """Keys are above zero and values below, and each number names its row and place."""
    random = Random(seed)
    tails = Tails(SHAPES, torch.float32, [torch.device("cpu")] * 2)
    lengths: dict[int, int] = {}
    number = 0
    for _ in range(60):
        for row in list(lengths):
            if random.random() < 0.08:
                tails.leave(row)
                del lengths[row]
        counts = dict.fromkeys(lengths, 1)
        for _ in range(random.choice([0, 0, 1, 4])):
            number += 1
            counts[number] = random.choice([1, 2, 31, 60, random.randint(1, 200)])
        buckets = tails.open(counts)
        order = [(row, count) for bucket in buckets for row, count in zip(bucket.rows, bucket.counts, strict=True)]
        assert dict(order) == counts and [b.start for b in buckets[1:]] == [b.end for b in buckets[:-1]]
        marks = [1000.0 * row + lengths.get(row, 0) + place for row, count in order for place in range(count)]
        for layer, (heads, key_dim, value_dim) in enumerate(SHAPES):
            new = torch.tensor(marks)[None, None, :, None]
            tails.write(layer, new.expand(1, heads, -1, key_dim), -new.expand(1, heads, -1, value_dim))
        for row, count in counts.items():
            lengths[row] = lengths.get(row, 0) + count
        if random.random() < 0.2 and lengths:
            row = random.choice(list(lengths))
            lengths[row] -= lengths[row] // 3
            tails.rewind(row, lengths[row])
        for row, length in lengths.items():
            right = 1000.0 * row + torch.arange(length)
            keys = filled(tails, row)[:2]
            values = filled(tails, row)[2:]
            assert tails.length(row) == length
            assert all(torch.equal(each, right[None, :, None].expand_as(each)) for each in keys)
            assert all(torch.equal(each, -right[None, :, None].expand_as(each)) for each in values)
        for bucket in buckets:
            assert all(torch.isfinite(states).all() for layer in range(2) for states in bucket.states(layer))
    for row in list(lengths):
        tails.leave(row)
    assert tails.num_bytes == 0


def test_no_row_pays_for_the_longest() -> None:
    tails = Tails(SHAPES, torch.float32, [torch.device("cpu")] * 2)
    tails.open({1: 10_000, **dict.fromkeys(range(2, 34), 3)})
    token = sum(heads * (key_dim + value_dim) * 4 for heads, key_dim, value_dim in SHAPES)
    assert tails.num_bytes <= token * (_capacity(10_000) + 32 * _capacity(3))
    tails.leave(1)
    assert tails.num_bytes == token * 32 * _capacity(3)
    for row in range(4, 34):
        tails.leave(row)
    tails.open({2: 1, 3: 1})
    assert tails.num_bytes <= token * 3 * _capacity(3), "what nobody uses is given back"


@pytest.mark.parametrize("length", [*range(1, 300), 1000, 4097])
def test_a_row_takes_little_more_than_it_has(length: int) -> None:
    assert length < _capacity(length) <= max(32, 1.25 * (length + 4))
