"""Attention over segments where they lie: nothing is concatenated, nothing repeated.

The partial attentions are merged by their log-sum-exp, as in FlashAttention's split over keys (Dao et al., 2022).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch.nn.functional import pad

from promptcache.kv.block import KVBlock
from promptcache.kv.kernel import attend, merge
from promptcache.kv.rotation import Turns

_MASKED_ROWS = 128
"""Up to so many new tokens their causal order is an additive mask, so that keys need no repeating; above, the kernel's
causal mode saves half the work, and repeating the new keys is small beside it."""

_MASKED_EARLIER = 256
"""More earlier tokens than that are attended in a call of their own: all rows see them, and a mask over them would cost
more than the call."""

Part = tuple[torch.Tensor, torch.Tensor]
"""Attention to some keys: output [1, num_kv_heads, group * rows, value_dim], log-sum-exp without the last dim."""


@dataclass(frozen=True)
class SegmentView:
    """Stored states of consecutive tokens: `keys[layer]` and `values[layer]` are [1, num_kv_heads, seq_len, head_dim].

    The query rows from `first_row` on see all of it, those before see none: rows are sorted by position, and no row
    stands inside the segment. It is used `shift` positions behind its place of encoding.
    """

    keys: tuple[torch.Tensor, ...]
    values: tuple[torch.Tensor, ...]
    first_row: int
    shift: int = 0

    @classmethod
    def of(cls, block: KVBlock, first_row: int, shift: int = 0) -> SegmentView:
        """A block where it lies."""
        keys, values = (tuple(layer[None] for layer in states) for states in (block.keys, block.values))
        return cls(keys, values, first_row, shift)


@dataclass(frozen=True)
class Segments:
    """What the tokens of one forward pass see besides each other. `mask`, additive [rows, rows], says which of each
    other they see (each one itself, at least); None is causal order. `turns` knows every shift of a view but 0; None
    where there is none. Made anew for each pass."""

    views: tuple[SegmentView, ...]
    mask: torch.Tensor | None = None
    turns: Turns | None = None
    _folded: dict[int, torch.Tensor] = field(default_factory=dict, compare=False, repr=False)

    def folded_mask(self, rows: int, earlier: int, group: int, like: torch.Tensor) -> torch.Tensor:
        """The mask for heads of a group as rows of one head, all of which see the `earlier` tokens of the tail:
        [group * rows, earlier + rows], the same for all layers."""
        if group not in self._folded:
            mask = self.mask
            if mask is None:
                lowest = torch.finfo(like.dtype).min
                mask = torch.full((rows, rows), lowest, dtype=like.dtype, device=like.device).triu(1)
            mask = pad(mask.to(like.device, like.dtype), (earlier, 0))
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
    batch, heads, rows, dim = query.shape
    # Query heads of a group become rows of their key head, so keys and values are never repeated.
    folded = query.reshape(batch, tail_key.shape[1], heads // tail_key.shape[1] * rows, dim)
    parts = _attend_tail(folded, tail_key, tail_value, segments, rows, scale)
    turned = segments.turns.queries(folded, layer) if segments.turns else {0: folded}
    for view in segments.views:
        if view.first_row < rows:
            query = turned[view.shift]
            parts.append(_attend_view(query, view.keys[layer], view.values[layer], rows, view.first_row, scale))
    merged = merge([output for output, _ in parts], [lse for _, lse in parts])
    return merged.reshape(batch, heads, rows, merged.shape[-1])


def _attend_tail(
    folded: torch.Tensor, key: torch.Tensor, value: torch.Tensor, segments: Segments, rows: int, scale: float
) -> list[Part]:
    """The rows' attention to what stands before them in the tail, and to each other."""
    group = folded.shape[2] // rows
    earlier = key.shape[2] - rows
    if rows == 1:
        return [attend(folded, key, value, scale=scale)]
    parts = []
    if earlier > _MASKED_EARLIER or (earlier and segments.mask is None and rows > _MASKED_ROWS):
        parts.append(attend(folded, key[:, :, :earlier], value[:, :, :earlier], scale=scale))
        key, value, earlier = key[:, :, earlier:], value[:, :, earlier:], 0
    if segments.mask is not None or rows <= _MASKED_ROWS:
        mask = segments.folded_mask(rows, earlier, group, folded)
        return [*parts, attend(folded, key, value, scale=scale, mask=mask, may_blind=False)]
    query = folded.reshape(folded.shape[0], -1, rows, folded.shape[-1])
    new_key, new_value = (states.repeat_interleave(group, dim=1) for states in (key, value))
    output, lse = attend(query, new_key, new_value, scale=scale, causal=True)
    return [*parts, (output.reshape(*folded.shape[:3], -1), lse.reshape(folded.shape[:3]))]


def _attend_view(
    folded: torch.Tensor, key: torch.Tensor, value: torch.Tensor, rows: int, first_row: int, scale: float
) -> Part:
    """The attention of the rows from `first_row` on; the rows before it see nothing."""
    if first_row == 0:
        return attend(folded, key, value, scale=scale)
    batch, kv_heads, _, dim = folded.shape
    seeing = folded.reshape(batch, kv_heads, -1, rows, dim)[:, :, :, first_row:]
    output, lse = attend(seeing.reshape(batch, kv_heads, -1, dim), key, value, scale=scale)
    output = pad(output.reshape(*seeing.shape[:-1], -1), (0, 0, first_row, 0))
    lse = pad(lse.reshape(seeing.shape[:-1]), (first_row, 0), value=float("-inf"))
    return output.flatten(2, 3), lse.flatten(2, 3)
