"""A small proof at load: the segments path on this very model against one pass of the stock model."""

from __future__ import annotations

import torch

from promptcache.kv.segments import Segments, SegmentView
from promptcache.models.adapter import ModelAdapter

_STORED, _FRESH, _GAP = 5, 4, 3
_FLOAT32_BOUND = 1e-3


def segments_path_is_right(adapter: ModelAdapter) -> bool:
    """Whether tokens behind a stored segment and a gap get the logits that one full pass gives them.

    Errors are measured against the spread of the logits. In half precision two right ways differ visibly: what the
    assembled path differs by is the noise, and four times of it are allowed.
    """
    ids = [(7919 * i + 13) % adapter.vocab_size for i in range(_STORED + _FRESH)]
    positions = [*range(_STORED), *range(_STORED + _GAP, _STORED + _GAP + _FRESH)]
    expected = adapter.full_prefill(ids, positions)[_STORED:]
    stored = adapter.new_cache(len(ids))
    adapter.forward(ids[:_STORED], positions[:_STORED], stored, None)
    block = stored.view(0, _STORED).copy()
    fresh, places = ids[_STORED:], positions[_STORED:]
    found = adapter.forward_segments(
        fresh, places, adapter.new_cache(_FRESH), Segments((SegmentView.of(block, 0),)), keep=0
    )
    assembled = adapter.forward(fresh, places, stored, adapter.position_mask(places, positions), keep=0)
    bound = max(_FLOAT32_BOUND, 4 * _error(assembled, expected))
    return _error(found, expected) <= bound


def _error(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float((found - expected).abs().max() / expected.std().clamp_min(1e-6))
