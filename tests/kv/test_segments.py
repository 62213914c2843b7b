from __future__ import annotations

import pytest
import torch

from promptcache.kv import segments
from promptcache.kv.segment_view import SegmentView
from promptcache.kv.segments import Segments, attend_segments
from tests.kv.plain import plain_attend


@pytest.mark.parametrize("length", [2047, 2048, 2049, 4095, 4096, 4097])
@pytest.mark.parametrize("rows", [1, 2, 9])
@pytest.mark.parametrize("kv_heads", [1, 2, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("threads", [2], indirect=True)
@pytest.mark.usefixtures("threads")
def test_few_rows_over_many_keys(rows: int, length: int, kv_heads: int, dtype: torch.dtype) -> None:
    heads, dim, before = 2 * kv_heads, 16, 3
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
    repeated = (states.repeat_interleave(2, 1) for states in (all_keys, all_values))
    expected, _ = plain_attend(query.float(), *(states.float() for states in repeated), scale=0.3, mask=mask)
    assert torch.allclose(found.float(), expected, atol=1e-5 if dtype == torch.float32 else 2e-2)


def test_keys_are_cut_where_threads_would_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    def with_threads(threads: int, *asked: tuple[int, int]) -> list[int]:
        monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
        return [segments._chunks(heads, length) for heads, length in asked]

    assert with_threads(1, (1, 8192), (3, 8192)) == [1, 1]
    assert with_threads(2, (1, 2047), (1, 2048), (2, 8192), (3, 4095), (3, 4096), (4, 8192)) == [1, 2, 1, 1, 2, 1]
    assert with_threads(16, (3, 2048), (3, 8192), (8, 8192), (16, 8192)) == [4, 16, 2, 1]
