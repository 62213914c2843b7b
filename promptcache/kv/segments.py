"""Attention over segments where they lie: nothing is concatenated, nothing repeated.

The partial attentions are merged by their log-sum-exp, as in FlashAttention's split over keys (Dao et al., 2022).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import gcd

import torch
from torch.nn.functional import pad

from promptcache.kv.kernel import Part, attend, merge
from promptcache.kv.rotation import Turns
from promptcache.kv.segment_view import SegmentView
from promptcache.kv.window import Windows

MASKED_ROWS = 128
"""Up to so many new tokens their causal order is an additive mask, so that keys need no repeating; above, the kernel's
causal mode saves half the work, and repeating the new keys is small beside it."""

_MASKED_EARLIER = 256
"""More earlier tokens than that are attended in a call of their own: all rows see them, and a mask over them would cost
more than the call."""

_FEW_ROWS, _IDLE_KEYS, _CHUNK_KEYS = 24, 1024, 512
"""Measured on two cores, 3 rows a head: one head attends to 6,144 keys in 0.35 instead of 0.52 ms a layer when both
read, to 2,048 in 0.17 instead of 0.19; three heads to 6,144 in 1.1 instead of 1.25, to fewer than 4,096 in no less; an
even number of heads in no less at all. From 48 rows on nothing is gained. Chunks are no shorter than the kernel's
own blocks."""

_STEP_ROWS = 128
"""So many rows at a time attend to earlier tokens that only a part of the rows sees: a mask over a step is small, and
what stands behind a step's last row is not looked at."""


@dataclass(frozen=True)
class Segments:
    """What the tokens of one forward pass see besides each other. `mask`, additive [rows, rows], says which of each
    other they see (each one itself, at least); None is causal order. `turns` knows every shift of a view but 0; None
    where there is none. `first_rows` says of each earlier token of the tail from which row on it is seen, ascending;
    empty where all rows see all of them. `windows` is there for models in which some layer sees only so far back. Made
    anew for each pass."""

    views: tuple[SegmentView, ...]
    mask: torch.Tensor | None = None
    turns: Turns | None = None
    first_rows: Sequence[int] = ()
    windows: Windows | None = None
    _folded: dict[tuple[int, torch.device], torch.Tensor] = field(default_factory=dict, compare=False, repr=False)
    _stairs: dict[tuple[int, torch.device], list[_Step]] = field(default_factory=dict, compare=False, repr=False)
    _holes: dict[tuple[int, int], torch.Tensor] = field(default_factory=dict, compare=False, repr=False)

    def folded_mask(self, rows: int, earlier: int, group: int, like: torch.Tensor) -> torch.Tensor:
        """The mask for heads of a group as rows of one head, all of which see the `earlier` tokens of the tail:
        [group * rows, earlier + rows], the same for all layers."""
        if (group, like.device) not in self._folded:
            mask = self.mask
            if mask is None:
                lowest = torch.finfo(like.dtype).min
                mask = torch.full((rows, rows), lowest, dtype=like.dtype, device=like.device).triu(1)
            mask = pad(mask.to(like.device, like.dtype), (earlier, 0))
            self._folded[group, like.device] = mask.repeat(group, 1)
        return self._folded[group, like.device]

    def view_mask(self, number: int, rows: int, group: int, like: torch.Tensor) -> torch.Tensor | None:
        """What the rows from the view's first one on see of view `number`, for heads of a group as rows of one head:
        additive [group * rows, seq_len] and the same for all layers; None where that is all of it."""
        view = self.views[number]
        if view.first_rows is None:
            return None
        if (number, group) not in self._holes:
            hidden = torch.arange(view.first_row, rows)[:, None] < view.first_rows
            mask = torch.zeros(hidden.shape, dtype=like.dtype).masked_fill_(hidden, torch.finfo(like.dtype).min)
            self._holes[number, group] = mask.repeat(group, 1).to(like.device)
        return self._holes[number, group]

    def stairs(self, rows: int, group: int, like: torch.Tensor) -> list[_Step]:
        """The steps in which `rows` attend to the earlier tokens, for heads of a group as rows of one head."""
        if (group, like.device) not in self._stairs:
            self._stairs[group, like.device] = list(self._steps(rows, group, like))
        return self._stairs[group, like.device]

    def _steps(self, rows: int, group: int, like: torch.Tensor) -> Iterator[_Step]:
        firsts = torch.tensor(self.first_rows, device=like.device)
        for start in range(0, rows, _STEP_ROWS):
            end = min(start + _STEP_ROWS, rows)
            seen, partly = bisect_right(self.first_rows, start), bisect_right(self.first_rows, end - 1)
            mask = None
            if partly > seen:
                hidden = torch.arange(start, end, device=like.device)[:, None] < firsts[seen:partly]
                mask = torch.zeros(hidden.shape, dtype=like.dtype, device=like.device)
                mask = mask.masked_fill_(hidden, torch.finfo(like.dtype).min).repeat(group, 1)
            yield _Step(start, end, seen, partly, mask)


@dataclass(frozen=True)
class _Step:
    """The rows `[start, end)` see all of the first `seen` earlier tokens, and of those from there to `partly` what the
    additive mask [group * rows, partly - seen] leaves."""

    start: int
    end: int
    seen: int
    partly: int
    mask: torch.Tensor | None


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
    return merge_parts(attend_parts(query, tail_key, tail_value, segments, layer, scale), query)


def attend_parts(
    query: torch.Tensor,
    tail_key: torch.Tensor,
    tail_value: torch.Tensor,
    segments: Segments,
    layer: int,
    scale: float,
) -> list[Part]:
    """As `attend_segments`, not merged yet. Heads of a group are rows of one head: [1, num_kv_heads, group * rows, ...]
    in each part."""
    batch, heads, rows, dim = query.shape
    # Query heads of a group become rows of their key head, so keys and values are never repeated.
    folded = query.reshape(batch, tail_key.shape[1], heads // tail_key.shape[1] * rows, dim)
    turned = segments.turns.queries(folded, layer) if segments.turns else {0: folded}
    windows = segments.windows
    if windows is not None and windows.widths[layer] is not None:
        parts = [windows.attend_tail(folded, tail_key, tail_value, layer, scale, segments.mask)]
        for number, view in enumerate(segments.views):
            seen = windows.attend_view(turned[view.shift], view.keys[layer], view.values[layer], layer, scale, number)
            parts += [seen] if seen else []
        return parts
    parts = _attend_tail(folded, tail_key, tail_value, segments, rows, scale)
    for number, view in enumerate(segments.views):
        if view.first_row < rows:
            mask = segments.view_mask(number, rows, folded.shape[2] // rows, folded)
            stored = view.keys[layer], view.values[layer]
            parts += _attend_view(turned[view.shift], *stored, rows, view.first_row, scale, mask)
    return parts


def merge_parts(parts: list[Part], query: torch.Tensor) -> torch.Tensor:
    """The attention of a query from its parts: [1, num_heads, rows, value_dim]."""
    merged = merge([output for output, _ in parts], [lse for _, lse in parts])
    return merged.reshape(*query.shape[:3], merged.shape[-1])


def _attend_tail(
    folded: torch.Tensor, key: torch.Tensor, value: torch.Tensor, segments: Segments, rows: int, scale: float
) -> list[Part]:
    """The rows' attention to what stands before them in the tail, and to each other."""
    group = folded.shape[2] // rows
    earlier = key.shape[2] - rows
    if rows == 1:
        return attend_all(folded, key, value, scale)
    parts = []
    if earlier and segments.first_rows:
        assert len(segments.first_rows) == earlier
        parts += _attend_stairs(folded, key, value, segments.stairs(rows, group, folded), rows, scale)
        key, value, earlier = key[:, :, earlier:], value[:, :, earlier:], 0
    elif earlier > _MASKED_EARLIER or (earlier and segments.mask is None and rows > MASKED_ROWS):
        parts.append(attend(folded, key[:, :, :earlier], value[:, :, :earlier], scale=scale))
        key, value, earlier = key[:, :, earlier:], value[:, :, earlier:], 0
    if segments.mask is not None or rows <= MASKED_ROWS:
        mask = segments.folded_mask(rows, earlier, group, folded)
        return [*parts, attend(folded, key, value, scale=scale, mask=mask, may_blind=False)]
    return [*parts, attend_in_order(folded, key, value, rows, scale)]


def attend_in_order(folded: torch.Tensor, key: torch.Tensor, value: torch.Tensor, rows: int, scale: float) -> Part:
    """The attention of rows, [batch, num_kv_heads, group * rows, head_dim], to each other in causal order: for many,
    see MASKED_ROWS."""
    query = folded.reshape(folded.shape[0], -1, rows, folded.shape[-1])
    key, value = (states.repeat_interleave(folded.shape[2] // rows, dim=1) for states in (key, value))
    output, lse = attend(query, key, value, scale=scale, causal=True)
    return output.reshape(*folded.shape[:3], -1), lse.reshape(folded.shape[:3])


def _attend_stairs(
    folded: torch.Tensor, key: torch.Tensor, value: torch.Tensor, steps: list[_Step], rows: int, scale: float
) -> list[Part]:
    """The rows' attention to earlier tokens that only a part of them sees: two parts, one of what every row of a step
    sees, one of what needs a mask."""
    by_row = folded.reshape(*folded.shape[:2], -1, rows, folded.shape[-1])
    halves: tuple[list[Part], list[Part]] = ([], [])
    for step in steps:
        query = by_row[:, :, :, step.start : step.end].flatten(2, 3)
        before, inside = slice(0, step.seen), slice(step.seen, step.partly)
        whole = attend(query, key[:, :, before], value[:, :, before], scale=scale)
        partly = attend(query, key[:, :, inside], value[:, :, inside], scale=scale, mask=step.mask)
        shape = (*by_row.shape[:3], step.end - step.start)
        for half, (output, lse) in zip(halves, (whole, partly), strict=True):
            half.append((output.reshape(*shape, -1), lse.reshape(shape)))
    return [
        (torch.cat([o for o, _ in half], 3).flatten(2, 3), torch.cat([lse for _, lse in half], 3).flatten(2, 3))
        for half in halves
    ]


def _attend_view(
    folded: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    rows: int,
    first_row: int,
    scale: float,
    mask: torch.Tensor | None,
) -> list[Part]:
    """The attention of the rows from `first_row` on, of which each sees something; the rows before it see nothing."""
    if first_row == 0 and mask is None:
        return attend_all(folded, key, value, scale)
    if first_row == 0:
        return [attend(folded, key, value, scale=scale, mask=mask, may_blind=False)]
    batch, kv_heads, _, dim = folded.shape
    seeing = folded.reshape(batch, kv_heads, -1, rows, dim)[:, :, :, first_row:]
    output, lse = attend(seeing.reshape(batch, kv_heads, -1, dim), key, value, scale=scale, mask=mask, may_blind=False)
    output = pad(output.reshape(*seeing.shape[:-1], -1), (0, 0, first_row, 0))
    lse = pad(lse.reshape(seeing.shape[:-1]), (first_row, 0), value=float("-inf"))
    return [(output.flatten(2, 3), lse.flatten(2, 3))]


def attend_all(folded: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float) -> list[Part]:
    """The attention of rows that see all of the keys. For few rows the kernel has one task a head, and where these do
    not go evenly into the threads, some wait: many keys are then cut into chunks that stand where a batch would (idea:
    Flash-Decoding, Dao et al., 2023)."""
    length = key.shape[2]
    chunks = _chunks(folded.shape[1], length) if folded.shape[2] <= _FEW_ROWS and key.is_cpu else 1
    if chunks == 1:
        return [attend(folded, key, value, scale=scale)]
    each, rest = divmod(length, chunks)
    kept = (states[0, :, : length - rest] for states in (key, value))
    cut = (torch.unflatten(states, 1, (chunks, each)).transpose(0, 1) for states in kept)
    output, lse = attend(folded.expand(chunks, -1, -1, -1), *cut, scale=scale)
    parts = list(zip(torch.split(output, 1), torch.split(lse, 1), strict=True))
    if rest:
        parts.append(attend(folded, key[:, :, length - rest :], value[:, :, length - rest :], scale=scale))
    return parts


def _chunks(heads: int, length: int) -> int:
    """Into how many chunks to cut so many keys of each head."""
    threads = torch.get_num_threads()
    idle = -heads % threads  # in the last round
    if length * idle < _IDLE_KEYS * (heads + idle):
        return 1
    return max(1, min(threads // gcd(heads, threads), length // _CHUNK_KEYS))
