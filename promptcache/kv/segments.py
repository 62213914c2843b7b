"""Attention over segments where they lie: nothing is concatenated, nothing repeated.

The partial attentions are merged by their log-sum-exp, as in FlashAttention's split over keys (Dao et al., 2022).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from promptcache.kv.kernel import attend


@dataclass(frozen=True)
class SegmentView:
    """Stored states of consecutive tokens: `keys[layer]` and `values[layer]` are [num_kv_heads, seq_len, head_dim].

    The query rows from `first_row` on see all of it, those before see none: rows are sorted by position, and no row
    stands inside the segment.
    """

    keys: tuple[torch.Tensor, ...]
    values: tuple[torch.Tensor, ...]
    first_row: int


@dataclass(frozen=True)
class Segments:
    """What the tokens of one forward pass see besides each other. `mask`, additive [rows, rows], says which of each
    other they see; None is causal order."""

    views: tuple[SegmentView, ...]
    mask: torch.Tensor | None = None


def attend_segments(
    query: torch.Tensor,
    tail_key: torch.Tensor,
    tail_value: torch.Tensor,
    segments: Segments,
    layer: int,
    scale: float,
) -> torch.Tensor:
    """Attention of the new tokens, [1, num_heads, rows, head_dim], to the stored segments and to the tail.

    The tail, [1, num_kv_heads, seq_len, head_dim], holds the states that this request computed: earlier ones, which all
    rows see, and those of the rows themselves at its end. Returns [1, num_heads, rows, value_dim].
    """
    rows, kv_heads = query.shape[2], tail_key.shape[1]
    group = query.shape[1] // kv_heads
    earlier = tail_key.shape[2] - rows
    if rows == 1:
        # One token sees its whole tail: no mask, and the heads of a group are rows of one head.
        output, lse = _fold_attend(query, tail_key, tail_value, scale)
    else:
        output, lse = attend(
            query,
            _repeat(tail_key[:, :, earlier:], group),
            _repeat(tail_value[:, :, earlier:], group),
            scale=scale,
            mask=segments.mask,
            causal=segments.mask is None,
        )
        if earlier:
            part = _fold_attend(query, tail_key[:, :, :earlier], tail_value[:, :, :earlier], scale)
            output, lse = _merge(output, lse, *part)
    for view in segments.views:
        key, value = view.keys[layer][None], view.values[layer][None]
        if view.first_row == 0:
            output, lse = _merge(output, lse, *_fold_attend(query, key, value, scale))
        elif view.first_row < rows:
            seeing = slice(view.first_row, None)
            part = _fold_attend(query[:, :, seeing], key, value, scale)
            merged = _merge(output[:, :, seeing], lse[:, :, seeing], *part)
            output = torch.cat([output[:, :, : view.first_row].float(), merged[0]], dim=2)
            lse = torch.cat([lse[:, :, : view.first_row], merged[1]], dim=2)
    return output.to(query.dtype)


def _fold_attend(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Unmasked attention. Query heads of a group become rows of their key head, so keys and values are never
    repeated: [1, num_heads, rows, head_dim] is taken as [1, num_kv_heads, group * rows, head_dim]."""
    batch, heads, rows, dim = query.shape
    folded = query.reshape(batch, key.shape[1], heads // key.shape[1] * rows, dim)
    output, lse = attend(folded, key, value, scale=scale)
    return output.reshape(batch, heads, rows, value.shape[-1]), lse.reshape(batch, heads, rows)


def _merge(
    output: torch.Tensor, lse: torch.Tensor, other: torch.Tensor, other_lse: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Two partial attentions over disjoint keys as one, in float32. Every row of the first has seen something."""
    weight = torch.sigmoid(other_lse - lse)[..., None]
    return torch.lerp(output.float(), other.float(), weight), torch.logaddexp(lse, other_lse)


def _repeat(states: torch.Tensor, group: int) -> torch.Tensor:
    """Key heads repeated for the query heads of their group: only for the few new tokens."""
    return states if group == 1 else states.repeat_interleave(group, dim=1)
