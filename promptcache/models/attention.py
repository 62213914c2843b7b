"""Our attention function, registered with transformers: plain sdpa until a request sets its segments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, sdpa_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from promptcache.kv.batch import BatchPass, attend_batch
from promptcache.kv.mass import attention_mass
from promptcache.kv.segments import Segments, attend_parts, merge_parts
from promptcache.kv.stored_mass import stored_mass

NAME = "promptcache"

# A context variable keeps threads apart, and reaches the function in families that pass no keyword arguments on.
_segments: ContextVar[Segments | BatchPass | None] = ContextVar("promptcache_segments", default=None)


@dataclass
class Watch:
    """Collects the attention that `rows` of a pass pay: `layers` gets the mass on each key, float32 [seq_len], or, in a
    pass over segments, what `stored_mass` gives; `windows` what the layer says of its own window, None where it says
    nothing."""

    rows: Sequence[int]
    layers: list[torch.Tensor] = field(default_factory=list)
    windows: list[int | None] = field(default_factory=list)


_watch: ContextVar[Watch | None] = ContextVar("promptcache_watch", default=None)


@contextmanager
def watched(watch: Watch) -> Iterator[None]:
    """Within it, passes of this thread tell where their attention falls."""
    token = _watch.set(watch)
    try:
        yield
    finally:
        _watch.reset(token)


@contextmanager
def active(segments: Segments | BatchPass | None) -> Iterator[None]:
    """Within it, forward passes of this thread attend to these segments, or to what the rows of a batch see."""
    token = _segments.set(segments)
    try:
        yield
    finally:
        _segments.reset(token)


def segment_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """transformers' attention interface. `key` and `value` are the request's tail; a mask is not needed, since the
    order of positions says what is seen. With no segments set it is sdpa to the letter."""
    segments, watch = _segments.get(), _watch.get()
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    if segments is None:
        if watch is not None:
            watch.windows.append(kwargs.get("sliding_window"))
            watch.layers.append(attention_mass(query, key, attention_mask, scale, watch.rows))
        output: tuple[torch.Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, **kwargs
        )
        return output
    layer: int = module.layer_idx  # type: ignore[assignment]
    if isinstance(segments, BatchPass):
        return attend_batch(query, segments, layer, scale).transpose(1, 2).contiguous(), None
    parts = attend_parts(query, key, value, segments, layer, scale)
    if watch is not None:
        watch.layers.append(stored_mass(query, key, parts, segments, layer, scale, watch.rows))
    return merge_parts(parts, query).transpose(1, 2).contiguous(), None


def register() -> None:
    """Makes the function known to transformers under `NAME`. Again changes nothing."""
    ALL_ATTENTION_FUNCTIONS.register(NAME, segment_attention)
    ALL_MASK_ATTENTION_FUNCTIONS.register(NAME, sdpa_mask)
