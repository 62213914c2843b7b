"""Codecs: the declared error holds, and what was decoded once loses nothing more."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from promptcache.errors import RequestError
from promptcache.kv.block import KVBlock
from promptcache.kv.codec import codec, settle

NAMES = ("none", "bf16", "int8")


@st.composite
def blocks(draw: st.DrawFn) -> KVBlock:
    """Random states with outlying channels and tokens, at any scale, and constant ones."""
    random = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    dtype = draw(st.sampled_from([torch.float32, torch.bfloat16, torch.float16]))
    shape = (draw(st.integers(1, 3)), draw(st.sampled_from([1, 2, 63, 64, 65, 130])), draw(st.sampled_from([1, 8, 24])))
    scale, offset = draw(st.sampled_from([0.0, 1e-3, 1.0, 100.0])), draw(st.sampled_from([0.0, 1.0, -1000.0]))

    def states() -> torch.Tensor:
        made = torch.randn(shape, generator=random) * scale + offset
        made[..., -1] *= 8
        made[:, -1] *= 4
        return made.to(dtype)

    return KVBlock((states(), states()), (states(), states()))


@pytest.mark.parametrize("name", NAMES)
@settings(deadline=None, max_examples=60)
@given(block=blocks())
def test_the_declared_error_holds_and_a_second_time_loses_nothing(name, block):
    used = codec(name)
    once = settle(used, block)
    for kind in ("keys", "values"):
        for found, stored in zip(getattr(once, kind), getattr(block, kind), strict=True):
            assert found.dtype == stored.dtype and found.shape == stored.shape
            assert bool(((found.float() - stored.float()).abs() <= used.bound(kind, stored)).all())
    twice = settle(used, once)
    for left, right in zip((*twice.keys, *twice.values), (*once.keys, *once.values), strict=True):
        assert torch.equal(left, right)


@pytest.mark.parametrize("name", NAMES)
def test_rows_are_as_declared(name):
    used = codec(name)
    for length in (1, 64, 65):
        states = torch.randn(2, length, 8)
        for kind in ("keys", "values"):
            parts = used.encode(kind, states)
            assert tuple(parts) == used.parts(kind)
            assert {part: tensor.shape[1] for part, tensor in parts.items()} == {
                part: used.rows(kind, part, length) for part in parts
            }


def test_an_outlying_channel_of_keys_spoils_no_other():
    keys = torch.randn(2, 64, 8)
    keys[..., 3] *= 1000
    found = settle(codec("int8"), KVBlock((keys,), (keys,)))
    others = [0, 1, 2, 4, 5, 6, 7]
    assert (found.keys[0] - keys)[..., others].abs().max() < 0.02
    assert (found.values[0] - keys)[..., others].abs().max() > 1


def test_int8_takes_less_than_a_third_of_float32():
    block = torch.randn(3, 1000, 64)
    for kind in ("keys", "values"):
        size = sum(part.numel() * part.element_size() for part in codec("int8").encode(kind, block).values())
        assert size < block.numel() * 4 / 3


def test_plain_states_are_not_copied():
    states = torch.randn(2, 3, 8)
    for name, dtype, plain in (
        ("none", torch.float32, True),
        ("bf16", torch.bfloat16, True),
        ("bf16", torch.float32, False),
    ):
        used, given_states = codec(name), states.to(dtype)
        decoded = used.decode("keys", used.encode("keys", given_states), dtype)
        assert used.is_plain(dtype) is plain and (decoded.data_ptr() == given_states.data_ptr()) is plain


def test_an_unknown_codec():
    with pytest.raises(RequestError, match="unknown codec 'zip'"):
        codec("zip")
