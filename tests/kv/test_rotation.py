from __future__ import annotations

import pytest
import torch

from promptcache.kv.block import KVBlock
from promptcache.kv.rotation import Rotary, Turns, gather, moved

SHIFTS = (1, 100, 1000, 4000)


def frequencies(pairs: int) -> torch.Tensor:
    return 10000.0 ** (-torch.arange(pairs, dtype=torch.float64) / pairs)


def exactly(states: torch.Tensor, rotary: Rotary, shift: int) -> torch.Tensor:
    """The rotation by complex numbers in float64, pair by pair."""
    pairs = len(rotary.frequencies)
    out = states.double().clone()
    for pair in range(pairs):
        a, b = (2 * pair, 2 * pair + 1) if rotary.interleaved else (pair, pair + pairs)
        angle = shift * float(rotary.frequencies[pair])
        turned = torch.complex(out[..., a], out[..., b]) * torch.polar(
            torch.tensor(1.0, dtype=torch.float64), torch.tensor(angle, dtype=torch.float64)
        )
        out[..., a], out[..., b] = turned.real, turned.imag
    return out


@pytest.mark.parametrize("shift", SHIFTS)
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize(("pairs", "dim"), [(8, 16), (4, 16), (1, 16), (32, 64)])
def test_a_key_turns_as_the_exact_rotation_says(pairs: int, dim: int, interleaved: bool, shift: int):
    rotary = Rotary(frequencies(pairs), interleaved)
    keys = torch.randn(2, 5, dim)
    found = rotary.turned(keys, torch.tensor([shift, 0, -shift]))
    assert found.shape == (3, 2, 5, dim)
    for each, by in zip(found, (shift, 0, -shift), strict=True):
        assert (each - exactly(keys, rotary, by)).abs().max() <= 1e-5 * keys.abs().max()


def test_dims_that_do_not_rotate_stay_to_the_bit():
    keys = torch.randn(2, 5, 16)
    found = Rotary(frequencies(3)).turned(keys, torch.tensor([123]))[0]
    assert torch.equal(found[..., 6:], keys[..., 6:]) and not torch.equal(found[..., :6], keys[..., :6])


def room(num_tokens: int) -> KVBlock:
    """A block to write to, whose tensors are parts of larger ones."""
    states = [torch.full((2, num_tokens + 3, 16), torch.nan)[:, :num_tokens] for _ in range(6)]
    return KVBlock(tuple(states[:3]), tuple(states[3:]))


def block() -> KVBlock:
    return KVBlock(tuple(torch.randn(2, 5, 16) for _ in range(3)), tuple(torch.randn(2, 5, 16) for _ in range(3)))


def test_a_moved_block_has_its_values_and_the_stored_one_stays():
    stored, rotary = block(), Rotary(frequencies(8))
    before = [key.clone() for key in stored.keys]
    there = moved(stored, 7, (rotary, None, rotary))
    assert all(map(torch.equal, stored.keys, before))
    assert all(map(torch.equal, there.values, stored.values))
    assert torch.equal(there.keys[1], stored.keys[1]) and not torch.equal(there.keys[0], stored.keys[0])
    assert all(map(torch.equal, moved(stored, 0, (rotary, None, rotary)).keys, stored.keys))


def test_blocks_are_gathered_side_by_side_each_with_its_own_moved():
    rotations, blocks = (Rotary(frequencies(8)), None, Rotary(frequencies(4), interleaved=True)), [block(), block()]
    together = room(15)
    gather([(blocks[0], 70), (blocks[1], 0), (blocks[0], 5)], rotations, together)
    for start, (stored, shift) in zip((0, 5, 10), ((blocks[0], 70), (blocks[1], 0), (blocks[0], 5)), strict=True):
        alone, part = moved(stored, shift, rotations), together.part(start, start + 5)
        assert all(map(torch.equal, (*part.keys, *part.values), (*alone.keys, *alone.values)))


def test_without_a_move_no_rotation_is_needed():
    stored = block()
    together = room(10)
    gather([(stored, 0), (stored, 0)], None, together)
    assert torch.equal(together.values[1][:, :5], stored.values[1]) and torch.equal(
        together.keys[2][:, 5:], stored.keys[2]
    )


def test_there_and_back_and_in_steps_is_the_same_place():
    rotations = (Rotary(frequencies(8)),) * 3
    stored = block()
    away = moved(moved(stored, 7, rotations), -3, rotations)
    there = moved(stored, 4, rotations)
    for _ in range(50):
        stored = moved(moved(stored, 11, rotations), -11, rotations)
    for found, expected in ((away, there), (moved(stored, 4, rotations), there)):
        assert all((a - b).abs().max() <= 1e-4 for a, b in zip(found.keys, expected.keys, strict=True))


@pytest.mark.parametrize("interleaved", [False, True])
def test_a_query_turned_back_meets_keys_where_they_lie(interleaved: bool):
    rotary = Rotary(frequencies(6), interleaved)
    query, key = torch.randn(1, 2, 3, 16), torch.randn(2, 5, 16)
    turned = Turns((40, 900), (None, rotary)).queries(query, 1)
    assert turned[0] is query
    for shift in (40, 900):
        expected = query @ rotary.turned(key, torch.tensor([shift]))[0].transpose(-1, -2)
        assert torch.allclose(turned[shift] @ key.transpose(-1, -2), expected, atol=1e-4)
    assert all(each is query for each in Turns((40,), (None, rotary)).queries(query, 0).values())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_turned_in_float32(dtype: torch.dtype):
    keys, rotary = torch.randn(2, 5, 16).to(dtype), Rotary(frequencies(8))
    found = rotary.turned(keys, torch.tensor([4000]))[0]
    assert found.dtype == dtype
    assert torch.equal(found, rotary.turned(keys.float(), torch.tensor([4000]))[0].to(dtype))
