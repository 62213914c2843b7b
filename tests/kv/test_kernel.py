"""Attention with its log-sum-exp against plain softmax, and the traps of the CPU kernel."""

from __future__ import annotations

import itertools

import pytest
import torch

from promptcache.kv.kernel import attend, merge
from tests.kv.plain import plain_attend

LOWEST = torch.finfo(torch.float32).min


def inputs(rows=5, length=9, heads=3, dim=16, dtype=torch.float32, value_dim=None):
    torch.manual_seed(0)
    shape = (1, heads, length)
    return (
        torch.randn(1, heads, rows, dim, dtype=dtype),
        torch.randn(*shape, dim, dtype=dtype),
        torch.randn(*shape, value_dim or dim, dtype=dtype),
    )


def reference(query, key, value, mask=None):
    scores = query.double() @ key.double().transpose(-1, -2) * 0.25
    scores = scores if mask is None else scores + mask.double()
    return scores.softmax(-1) @ value.double(), scores.logsumexp(-1)


@pytest.mark.parametrize("function", [attend, plain_attend])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_equals_softmax(function, dtype):
    query, key, value = inputs(dtype=dtype)
    output, lse = function(query, key, value, scale=0.25)
    expected, expected_lse = reference(query, key, value)
    tolerance = 1e-5 if dtype == torch.float32 else 2e-2
    assert output.dtype == dtype and lse.dtype == torch.float32
    torch.testing.assert_close(output.double(), expected, atol=tolerance, rtol=tolerance)
    torch.testing.assert_close(lse.double(), expected_lse, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("function", [attend, plain_attend])
def test_causal(function):
    query, key, value = inputs(rows=6, length=6)
    hidden = torch.ones(6, 6, dtype=torch.bool).triu(1)
    expected, _ = reference(query, key, value, torch.zeros(6, 6).masked_fill(hidden, LOWEST))
    torch.testing.assert_close(
        function(query, key, value, scale=0.25, causal=True)[0].double(), expected, atol=1e-5, rtol=0
    )


@pytest.mark.parametrize(("rows", "length"), [(0, 4), (4, 0), (0, 0)])
def test_empty_input_does_not_kill_the_process(rows, length):
    query, key, value = inputs(rows, length)
    output, lse = attend(query, key, value, scale=0.25)
    assert output.shape == (1, 3, rows, 16) and not output.any()
    assert lse.shape == (1, 3, rows) and (lse == float("-inf")).all()


def test_a_row_that_sees_nothing_weighs_nothing():
    query, key, value = inputs(rows=3)
    mask = torch.zeros(3, 9)
    mask[1] = LOWEST
    output, lse = attend(query, key, value, scale=0.25, mask=mask)
    assert (lse[..., 1] == float("-inf")).all() and not output[..., 1, :].any()
    other_key, other_value = inputs(length=4)[1:]
    merged = merge(*map(list, zip((output, lse), attend(query, other_key, other_value, scale=0.25), strict=True)))
    alone, _ = reference(query[..., 1:2, :], other_key, other_value)
    torch.testing.assert_close(merged[..., 1:2, :].double(), alone, atol=1e-5, rtol=0)


def test_a_last_stride_other_than_one():
    query, key, value = inputs()
    strided = [t.transpose(-1, -2).contiguous().transpose(-1, -2) for t in (query, key, value)]
    assert strided[1].stride(-1) != 1
    torch.testing.assert_close(
        attend(*strided, scale=0.25)[0].double(), reference(query, key, value)[0], atol=1e-5, rtol=0
    )
    mask = torch.randn(9, 5).t()
    torch.testing.assert_close(
        attend(query, key, value, scale=0.25, mask=mask)[0].double(),
        reference(query, key, value, mask)[0],
        atol=1e-5,
        rtol=0,
    )


def test_unequal_dims_and_heads_outside_the_kernels_range():
    for query, key, value in (inputs(value_dim=24), inputs(dim=4)):
        torch.testing.assert_close(
            attend(query, key, value, scale=0.25)[0].double(), reference(query, key, value)[0], atol=1e-5, rtol=0
        )


def test_parts_merge_to_the_whole():
    query, key, value = inputs(length=40)
    cuts = [0, 1, 7, 7, 39, 40]
    parts = [attend(query, key[:, :, a:b], value[:, :, a:b], scale=0.25) for a, b in itertools.pairwise(cuts)]
    merged = merge([output for output, _ in parts], [lse for _, lse in parts])
    torch.testing.assert_close(merged.double(), reference(query, key, value)[0], atol=1e-5, rtol=0)
