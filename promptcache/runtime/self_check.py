"""A small proof at load: the segments path on this very model against one pass of the stock model."""

from __future__ import annotations

import torch

from promptcache.kv.segments import Segments, SegmentView
from promptcache.models.adapter import ModelAdapter

_STORED, _FRESH, _GAP = 5, 4, 3
_TOLERANCE = {torch.float32: 1e-3, torch.float16: 3e-2, torch.bfloat16: 1e-1}


def segments_path_is_right(adapter: ModelAdapter) -> bool:
    """Whether tokens behind a stored segment and a gap get the logits that one full pass gives them.

    The error is measured against the spread of the logits; the bound is that of the model's dtype.
    """
    ids = [(7919 * i + 13) % adapter.vocab_size for i in range(_STORED + _FRESH)]
    positions = [*range(_STORED), *range(_STORED + _GAP, _STORED + _GAP + _FRESH)]
    expected = adapter.full_prefill(ids, positions)[_STORED:]
    cache = adapter.new_cache(_STORED)
    adapter.forward(ids[:_STORED], positions[:_STORED], cache, None)
    block = cache.view(0, _STORED)
    found = adapter.forward_segments(
        ids[_STORED:],
        positions[_STORED:],
        adapter.new_cache(_FRESH),
        Segments((SegmentView(block.keys, block.values, 0),)),
        keep=0,
    )
    error = float((found - expected).abs().max() / expected.std().clamp_min(1e-6))
    return error <= _TOLERANCE.get(adapter.dtype, 1e-3)
