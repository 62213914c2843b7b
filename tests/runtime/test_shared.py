"""Groups of stored states: each token that a row uses is seen once, as that row uses it, and nothing else is."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any

import pytest
import torch

from promptcache.kv.arena import Arena
from promptcache.kv.block import KVBlock
from promptcache.kv.devices import Devices
from promptcache.kv.rotation import Rotary
from promptcache.layout.encodings.key import SegmentKey
from promptcache.runtime.batch import shared
from promptcache.runtime.batch.pieces import Reused
from promptcache.runtime.batch.shared import SharedStates

ROTARY = Rotary(torch.tensor([1.0, 0.1], dtype=torch.float64))


def stored(random: Random) -> dict[SegmentKey, KVBlock]:
    """Segments, most of them side by side in one of two arenas. The values name the token."""
    found: dict[SegmentKey, KVBlock] = {}
    for name in "ab":
        lengths = [random.choice([1, 2, 5, 40, 130, 200]) for _ in range(5)]
        blocks = [KVBlock((torch.randn(1, length, 4),), (torch.empty(1, length, 1),)) for length in lengths]
        arena, start = Arena.like(blocks[0], sum(lengths)), 0
        for number, block in enumerate(blocks):
            block.values[0][0, :, 0] = torch.arange(block.seq_len) + 1000 * len(found)
            found[SegmentKey(f"{name}{number}")] = arena.put(block, start) if random.random() < 0.8 else block
            start += block.seq_len
    return found


def uses(random: Random, blocks: dict[SegmentKey, KVBlock], moves: bool) -> list[Reused]:
    """Some segments, whole or without what is repaired, moved or not, twice perhaps, by the rows that see them."""
    found, first_row = [], 0
    shift = 0
    for key, block in blocks.items():
        for _ in range(random.choice([0, 1, 1, 1, 2 if moves else 1])):
            shift = shift + random.choice([0, 0, 3]) + 1 if moves else 0
            first_row += random.choice([0, 0, 1])
            start = random.choice([0, 0, 0, min(2, block.seq_len - 1)])
            inner = random.sample(range(start, block.seq_len), min(random.choice([0, 0, 1, 9]), block.seq_len - start))
            cuts = sorted({start, block.seq_len, *inner})
            for begin, end in pairwise(cuts):
                if end - begin > 1 or len(cuts) == 2:
                    found.append(Reused(key, block, begin, end, shift, first_row))
    return found


def in_order(parts: list[tuple[torch.Tensor, torch.Tensor, Any, int]]) -> tuple[torch.Tensor, torch.Tensor]:
    """For each token its name and the first row that sees it, [tokens, 2], and its keys as used, in an order of their
    own."""
    names, keys = [torch.zeros(0, 2)], [torch.zeros(0, 4)]
    for key, value, part, shift in parts:
        name = value[0, part.start : part.end]
        names.append(torch.cat([name, torch.full_like(name, part.first_row)], 1))
        keys.append(ROTARY.turned(key[0, part.start : part.end], torch.tensor([shift]))[0])
    whole = torch.cat([torch.cat(names), torch.cat(keys)], 1)
    order = sorted(range(len(whole)), key=lambda place: whole[place, :3].tolist())
    return torch.cat(names)[order], torch.cat(keys)[order]


@pytest.mark.parametrize("moves", [False, True])
@pytest.mark.parametrize("seed", range(30))
def test_each_token_is_seen_once_and_as_it_is_used(seed: int, moves: bool) -> None:
    random = Random(seed)
    blocks = stored(random)
    states = SharedStates(Devices([torch.device("cpu")]))
    rows = {row: uses(random, blocks, moves) for row in range(random.choice([1, 2, 6]))}
    for _ in range(4):
        groups = states.groups(rows, (ROTARY,))
        for row, runs in rows.items():
            ours = [
                (group.view, part, group.uses[row].shift)
                for group in groups
                if row in group.uses
                for part in group.uses[row].parts
            ]
            seen = [(view.keys[0][0], view.values[0][0], part, shift) for view, part, shift in ours]
            right = [(run.block.keys[0], run.block.values[0], run, run.shift) for run in runs]
            for found, expected in zip(in_order(seen), in_order(right), strict=True):
                torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)
        assert all(set(group.uses) <= set(rows) for group in groups)
        # Another set of rows, some of which were there.
        rows.pop(random.choice(list(rows)), None)
        rows[max(rows, default=0) + 1] = uses(random, blocks, moves)


def test_rows_alike_share_every_call() -> None:
    blocks = stored(Random(0))
    runs = [Reused(key, block, 0, block.seq_len, 0, 0) for key, block in blocks.items()]
    states = SharedStates(Devices([torch.device("cpu")]))
    alone = states.groups({1: runs}, None)
    many = states.groups(dict.fromkeys(range(16), runs), None)
    assert [group.length for group in many] == [group.length for group in alone]
    assert all(len(group.uses) == 16 for group in many)


def test_what_lies_side_by_side_is_not_copied(monkeypatch) -> None:
    """Though no row uses all of it."""
    monkeypatch.setattr(shared, "POOLED_TOKENS", 1000)
    block = KVBlock((torch.randn(1, 10, 4),), (torch.randn(1, 10, 4),))
    arena = Arena.like(block, 50)
    blocks = [arena.put(block, start) for start in range(0, 50, 10)]
    runs = [Reused(SegmentKey(f"{n}"), each, 0, 10, 0, 0) for n, each in enumerate(blocks)]
    states = SharedStates(Devices([torch.device("cpu")]))
    groups = states.groups({1: runs[1:], 2: runs[:4]}, None)
    assert [group.length for group in groups] == [50] and states.num_bytes == 0
    # With a gap it is, once; and not again for other rows.
    groups = states.groups({1: runs[4:], 2: [*runs[:2], runs[4]]}, None)
    assert states.num_bytes == 30 * 8 * 4
    keys = groups[0].view.keys[0]
    assert states.groups({2: [*runs[:2], runs[4]], 5: runs[4:]}, None)[0].view.keys[0] is keys
    states.keep([])
    assert states.num_bytes == 0
