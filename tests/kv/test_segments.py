from __future__ import annotations

import pytest
import torch

from promptcache.kv import segments
from promptcache.kv.segments import Segments, SegmentView, attend_segments
from tests.kv.plain import plain_attend


@pytest.mark.parametrize("length", [segments._MANY_KEYS - 1, *(segments._MANY_KEYS + n for n in range(5))])
@pytest.mark.parametrize("rows", [1, 2, 9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_few_rows_over_many_keys(rows: int, length: int, dtype: torch.dtype) -> None:
    heads, kv_heads, dim, before = 6, 2, 16, 3
    query = torch.randn(1, heads, rows, dim, dtype=dtype)
    # The states lie in the middle of larger ones, as in an arena.
    keys, values = (torch.randn(kv_heads, length + 9, dim, dtype=dtype)[:, 4 : 4 + length][None] for _ in range(2))
    tail_key, tail_value = (torch.randn(1, kv_heads, before + rows, dim, dtype=dtype) for _ in range(2))
    found = attend_segments(query, tail_key, tail_value, Segments((SegmentView((keys,), (values,), 0),)), 0, 0.3)

    all_keys, all_values = torch.cat([keys, tail_key], 2), torch.cat([values, tail_value], 2)
    hidden = torch.ones(rows, rows, dtype=torch.bool).triu(1)
    mask = torch.zeros(rows, length + before + rows).masked_fill_(
        torch.nn.functional.pad(hidden, (length + before, 0)), torch.finfo(torch.float32).min
    )
    group = heads // kv_heads
    repeated = (states.repeat_interleave(group, 1) for states in (all_keys, all_values))
    expected, _ = plain_attend(query.float(), *(states.float() for states in repeated), scale=0.3, mask=mask)
    assert torch.allclose(found.float(), expected, atol=1e-5 if dtype == torch.float32 else 2e-2)
