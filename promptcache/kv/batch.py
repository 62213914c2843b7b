"""Attention of many rows at once: what several of them import is attended in one call, where it lies.

The tokens of all rows stand side by side, without padding. A call for each stored part stacks the queries of all rows
that see it; a call for each bucket of tails serves all rows in it. The results meet by their log-sum-exp, as in
`attend_segments` (idea: cascade inference, Ye et al., FlashInfer, 2024; Hydragen, Juravsky et al., 2024).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch.nn.functional import pad

from promptcache.kv.kernel import Part, attend, merge
from promptcache.kv.rotation import Rotary, Rotations
from promptcache.kv.segment_view import Layers
from promptcache.kv.segments import MASKED_ROWS, Segments, attend_all, attend_in_order, attend_segments
from promptcache.kv.tails import Bucket, Tails

_MOST_PARTS = 32
"""So many results wait for each other at most: of many tokens each takes megabytes."""


@dataclass(frozen=True, eq=False)
class SharedView:
    """Stored states, [1, num_kv_heads, seq_len, head_dim] a layer, that some tokens of a pass see: `tokens` says which
    (None: all), by their place in the pass.

    `shifts`, one for each of those tokens, says how many positions behind its place of encoding its row uses the block;
    none where all are 0. `mask`, additive [tokens, seq_len], says what each sees of it; None where all see all. What
    layers can share is kept, by device.
    """

    keys: Layers
    values: Layers
    tokens: torch.Tensor | None = None
    shifts: Sequence[int] = ()
    mask: torch.Tensor | None = None
    _tables: dict[tuple[Rotary, torch.device], tuple[torch.Tensor, torch.Tensor]] = field(default_factory=dict)
    _folded: dict[torch.device, torch.Tensor] = field(default_factory=dict)
    _tokens: dict[torch.device, torch.Tensor] = field(default_factory=dict)

    def seeing(self, query: torch.Tensor, rotary: Rotary | None) -> torch.Tensor:
        """Of the pass's queries, [1, num_heads, tokens, head_dim], those that see it, turned back by their shifts."""
        if (tokens := self.tokens_on(query.device)) is not None:
            query = query.index_select(2, tokens)
        if not self.shifts or rotary is None:
            return query
        known = (rotary, query.device)
        if known not in self._tables:
            distinct = sorted(set(self.shifts))
            rows = torch.tensor([distinct.index(shift) for shift in self.shifts], device=query.device)
            cosines, sines = (table.index_select(0, rows) for table in rotary.tables(-torch.tensor(distinct), query))
            self._tables[known] = cosines, sines
        return rotary.apply(query, *self._tables[known])

    def tokens_on(self, device: torch.device) -> torch.Tensor | None:
        """`tokens`, there."""
        if self.tokens is not None and device not in self._tokens:
            self._tokens[device] = self.tokens.to(device)
        return self._tokens.get(device)

    def folded_mask(self, group: int, like: torch.Tensor) -> torch.Tensor | None:
        """The mask for heads of a group as rows of one head."""
        if self.mask is None:
            return None
        if like.device not in self._folded:
            self._folded[like.device] = self.mask.to(like.device, like.dtype).repeat(group, 1)
        return self._folded[like.device]


@dataclass(frozen=True, eq=False)
class BatchPass:
    """What the tokens of one pass see: `views` of stored states, and the tails of their own rows, in `buckets`.

    `masks` is for rows whose new tokens do not see each other in order: additive [new, new], by row. `windowed` is
    there for models in which some layer sees only so far back: such a layer attends row by row, and these say by row
    what its tokens see. Made anew for each pass; `views` serve as long as the same rows have as many tokens.
    """

    tails: Tails
    buckets: Sequence[Bucket]
    views: Sequence[SharedView]
    rotations: Rotations | None = None
    masks: dict[int, torch.Tensor] = field(default_factory=dict)
    windowed: dict[int, Segments] = field(default_factory=dict)

    @cached_property
    def _own(self) -> list[_Own]:
        return [_Own(bucket, self.masks) for bucket in self.buckets]


def attend_batch(query: torch.Tensor, batch: BatchPass, layer: int, scale: float) -> torch.Tensor:
    """Attention of the tokens of a pass, [1, num_heads, tokens, head_dim], whose own states are in the tails already.
    Returns [1, num_heads, tokens, value_dim]."""
    if _has_window(batch, layer):
        return _attend_rows(query, batch, layer, scale)
    kv_heads = batch.tails.layers[layer].num_kv_heads
    own = [each.attend(query, layer, kv_heads, scale) for each in batch._own]
    output, lse = own[0] if len(own) == 1 else (torch.cat(parts, 2) for parts in zip(*own, strict=True))
    rotary = batch.rotations[layer] if batch.rotations else None
    whole, partly = [(output, lse)], []
    # Heads of a group become rows of one head: once here, or anew for each view.
    query = query.contiguous()
    for view in batch.views:
        seeing = view.seeing(query, rotary)
        folded = seeing.reshape(1, kv_heads, -1, seeing.shape[-1])
        keys, values = view.keys[layer], view.values[layer]
        mask = view.folded_mask(query.shape[1] // kv_heads, folded)
        found = (
            attend_all(folded, keys, values, scale)
            if mask is None
            else [attend(folded, keys, values, scale=scale, mask=mask, may_blind=False)]
        )
        tokens = view.tokens_on(query.device)
        for output, lse in found:
            part = output.reshape(*seeing.shape[:3], -1), lse.reshape(seeing.shape[:3])
            if tokens is None:
                whole.append(part)
            else:
                partly.append((tokens, *part))
        if len(whole) + len(partly) > _MOST_PARTS:
            whole, partly = [_folded(whole, partly)], []
    if partly:
        return _folded(whole, partly)[0].to(query.dtype)
    return merge([output for output, _ in whole], [lse for _, lse in whole]).to(query.dtype)


def _folded(whole: list[Part], partly: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]) -> Part:
    """One part, in float32, from those of all tokens and those of some. Every token has seen something in the first."""
    output, lse = whole[0]
    lses = lse.new_full((len(whole) + len(partly), *lse.shape), float("-inf"))
    for number, (_, lse) in enumerate(whole):
        lses[number] = lse
    for number, (tokens, _, lse) in enumerate(partly, len(whole)):
        lses[number].index_copy_(2, tokens, lse)
    weights = lses.softmax(0)[..., None]
    merged = output.float() * weights[0]
    for number, (other, _) in enumerate(whole[1:], 1):
        merged.addcmul_(other.float(), weights[number])
    for number, (tokens, other, _) in enumerate(partly, len(whole)):
        merged.index_add_(2, tokens, other.float() * weights[number].index_select(2, tokens))
    return merged, lses.logsumexp(0)


class _Own:
    """The attention of a bucket's new tokens to their own tails. Rows shorter than the longest are filled up for the
    kernel's call, and what stands there is dropped."""

    def __init__(self, bucket: Bucket, masks: dict[int, torch.Tensor]) -> None:
        self._bucket = bucket
        self._rows, self._longest = len(bucket.rows), max(bucket.counts)
        self._even = set(bucket.counts) == {self._longest}
        self._given = {row: masks[row] for row in bucket.rows if row in masks}
        self._masks: dict[torch.device, torch.Tensor] = {}
        self._places: dict[torch.device, tuple[torch.Tensor, torch.Tensor]] = {}

    def attend(self, query: torch.Tensor, layer: int, kv_heads: int, scale: float) -> Part:
        """Output [1, num_heads, tokens, value_dim] and log-sum-exp [1, num_heads, tokens] of the bucket's tokens."""
        keys, values = self._bucket.states(layer)
        filled, kept = (None, None) if self._even else self._filled(query.device)
        queries = (
            query[:, :, self._bucket.start : self._bucket.end] if filled is None else query.index_select(2, filled)
        )
        heads, dim = queries.shape[1], queries.shape[3]
        by_row = queries.reshape(kv_heads, heads // kv_heads, self._rows, self._longest, dim).permute(2, 0, 1, 3, 4)
        folded = by_row.reshape(self._rows, kv_heads, -1, dim)
        if self._longest == 1:
            output, lse = attend(folded, keys, values, scale=scale, mask=self._lengths_mask(folded), may_blind=False)
        elif self._given or self._longest <= MASKED_ROWS:
            mask = self._new_mask(folded, heads // kv_heads)
            output, lse = attend(folded, keys, values, scale=scale, mask=mask, may_blind=False)
        else:
            output, lse = attend_in_order(folded, keys, values, self._longest, scale)
        shape = (self._rows, heads, self._longest)
        output = output.reshape(*shape, -1).transpose(0, 1).flatten(1, 2)[None]
        lse = lse.reshape(shape).transpose(0, 1).flatten(1, 2)[None]
        return (output, lse) if kept is None else (output.index_select(2, kept), lse.index_select(2, kept))

    def _lengths_mask(self, like: torch.Tensor) -> torch.Tensor | None:
        """[rows, 1, 1, longest tail]: each row sees its tail, as far as it goes."""
        lengths = self._bucket.lengths
        if len(set(lengths)) == 1:
            return None
        if like.device not in self._masks:
            hidden = torch.arange(max(lengths)) >= torch.tensor(lengths)[:, None]
            mask = torch.zeros(hidden.shape, dtype=like.dtype).masked_fill_(hidden, torch.finfo(like.dtype).min)
            self._masks[like.device] = mask[:, None, None].to(like.device)
        return self._masks[like.device]

    def _new_mask(self, like: torch.Tensor, group: int) -> torch.Tensor:
        """[rows or 1, 1, group * longest, longest]: what each of a row's new tokens sees of each other."""
        if like.device not in self._masks:
            lowest = torch.finfo(like.dtype).min
            order = torch.full((self._longest, self._longest), lowest, dtype=like.dtype).triu(1)
            masks = [] if self._given else [order]
            for row, count in zip(self._bucket.rows, self._bucket.counts, strict=True):
                if row in self._given:
                    rest = self._longest - count
                    masks.append(pad(self._given[row].to(like.dtype), (0, rest, 0, rest), value=lowest))
                elif self._given:
                    masks.append(order)
            self._masks[like.device] = torch.stack(masks)[:, None].repeat(1, 1, group, 1).to(like.device)
        return self._masks[like.device]

    def _filled(self, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
        """The tokens with each row filled up with its last one, and where among them the tokens themselves are."""
        if device not in self._places:
            filled: list[int] = []
            kept: list[int] = []
            start = self._bucket.start
            for count in self._bucket.counts:
                kept += range(len(filled), len(filled) + count)
                filled += [*range(start, start + count), *[start + count - 1] * (self._longest - count)]
                start += count
            self._places[device] = torch.tensor(filled, device=device), torch.tensor(kept, device=device)
        return self._places[device]


def _has_window(batch: BatchPass, layer: int) -> bool:
    first = next(iter(batch.windowed.values()), None)
    return first is not None and first.windows is not None and first.windows.widths[layer] is not None


def _attend_rows(query: torch.Tensor, batch: BatchPass, layer: int, scale: float) -> torch.Tensor:
    """Row by row, as each would be alone."""
    parts = []
    for bucket in batch.buckets:
        start = bucket.start
        keys, values = bucket.states(layer)
        for number, (row, count, length) in enumerate(zip(bucket.rows, bucket.counts, bucket.lengths, strict=True)):
            own_keys, own_values = (states[number : number + 1, :, :length] for states in (keys, values))
            new = query[:, :, start : start + count]
            parts.append(attend_segments(new, own_keys, own_values, batch.windowed[row], layer, scale))
            start += count
    return torch.cat(parts, 2)
