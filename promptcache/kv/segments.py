"""Attention over segments where they lie: nothing is concatenated, nothing repeated.

The partial attentions are merged by their log-sum-exp, as in FlashAttention's split over keys (Dao et al., 2022).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from promptcache.kv.kernel import attend

_MASKED_ROWS = 128
"""Up to so many new tokens their causal order is an additive mask, so that keys need no repeating; above, the kernel's
causal mode saves half the work, and repeating the new keys is small beside it."""


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
    other they see (each one itself, at least); None is causal order. Made anew for each pass."""

    views: tuple[SegmentView, ...]
    mask: torch.Tensor | None = None
    _folded: dict[int, torch.Tensor] = field(default_factory=dict, compare=False, repr=False)

    def folded_mask(self, rows: int, earlier: int, group: int, like: torch.Tensor) -> torch.Tensor:
        """The mask for heads of a group as rows of one head, all of which see the `earlier` tokens of the tail:
        [group * rows, earlier + rows], the same for all layers."""
        if group not in self._folded:
            mask = self.mask
            if mask is None:
                lowest = torch.finfo(like.dtype).min
                mask = torch.full((rows, rows), lowest, dtype=like.dtype, device=like.device).triu(1)
            mask = torch.nn.functional.pad(mask.to(like.device, like.dtype), (earlier, 0))
            self._folded[group] = mask.repeat(group, 1)
        return self._folded[group]


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
    rows = query.shape[2]
    output, lse = _attend_tail(query, tail_key, tail_value, segments, scale)
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


def _attend_tail(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, segments: Segments, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """The rows' attention to what stands before them in the tail, and to each other."""
    rows, group = query.shape[2], query.shape[1] // key.shape[1]
    earlier = key.shape[2] - rows
    if rows == 1:
        return _fold_attend(query, key, value, scale)
    if segments.mask is not None or rows <= _MASKED_ROWS:
        return _fold_attend(query, key, value, scale, segments.folded_mask(rows, earlier, group, query))
    new_key, new_value = (states[:, :, earlier:].repeat_interleave(group, dim=1) for states in (key, value))
    output, lse = attend(query, new_key, new_value, scale=scale, causal=True)
    if earlier:
        part = _fold_attend(query, key[:, :, :earlier], value[:, :, :earlier], scale)
        output, lse = _merge(output, lse, *part)
    return output, lse


def _fold_attend(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float, mask: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Query heads of a group become rows of their key head, so keys and values are never repeated: [1, num_heads, rows,
    head_dim] is taken as [1, num_kv_heads, group * rows, head_dim]. The mask blinds no row."""
    batch, heads, rows, dim = query.shape
    folded = query.reshape(batch, key.shape[1], heads // key.shape[1] * rows, dim)
    output, lse = attend(folded, key, value, scale=scale, mask=mask, may_blind=False)
    return output.reshape(batch, heads, rows, value.shape[-1]), lse.reshape(batch, heads, rows)


def _merge(
    output: torch.Tensor, lse: torch.Tensor, other: torch.Tensor, other_lse: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Two partial attentions over disjoint keys as one, in float32. Every row of the first has seen something."""
    weight = torch.sigmoid(other_lse - lse)[..., None]
    return torch.lerp(output.float(), other.float(), weight), torch.logaddexp(lse, other_lse)
