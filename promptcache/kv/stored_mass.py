"""How much attention falls on stored keys where they lie: nothing of the context is copied, or held all at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from promptcache.kv.kernel import Part
from promptcache.kv.segments import Segments

_ROWS, _KEYS = 64, 1024
"""Rows and keys at once. A row's weights need not stand side by side: their sum is known from the attention itself."""


def stored_mass(
    query: torch.Tensor,
    tail_key: torch.Tensor,
    parts: Sequence[Part],
    segments: Segments,
    layer: int,
    scale: float,
    rows: Sequence[int],
) -> torch.Tensor:
    """The weights that `rows` of the query give to each stored key, summed over rows and heads: float32 [earlier tokens
    of the tail + tokens of each view + 1], and last what falls on the tokens of the pass itself.

    `query` and `tail_key` are as for `attend_parts`, whose result `parts` are.
    """
    heads, kv_heads = query.shape[1], tail_key.shape[1]
    lse = torch.stack([each for _, each in parts]).logsumexp(0).reshape(kv_heads, heads // kv_heads, -1)
    totals = []
    for stored in _stored(tail_key, query.shape[2], segments, layer):
        total = torch.zeros(stored.keys.shape[1], device=query.device)
        for start in range(0, len(rows), _ROWS):
            some = torch.tensor(rows[start : start + _ROWS], device=query.device)
            asking, norm = query[:, :, some], lse[:, :, some, None]
            if stored.shift and segments.turns:
                asking = segments.turns.queries(asking, layer)[stored.shift]
            asking = asking.reshape(kv_heads, -1, query.shape[-1]).float() * scale
            for first in range(0, len(total), _KEYS):
                part = slice(first, first + _KEYS)
                scores = torch.matmul(asking, stored.keys[:, part].float().transpose(-1, -2))
                weights = (torch.unflatten(scores, 1, (-1, len(some))) - norm).exp()
                if (seen := stored.seen(some, part)) is not None:
                    weights = weights.where(seen, 0)
                total[part] += weights.sum((0, 1, 2))
        totals.append(total)
    found = torch.cat(totals)
    return torch.cat((found, (heads * len(rows) - found.sum())[None]))


@dataclass(frozen=True)
class _Stored:
    """Keys, [num_kv_heads, seq_len, head_dim], used `shift` positions later. Row r sees those whose `first_rows` are r
    or less, all where that is None; in a `window`, (width, the rows' positions, the keys'), what stands in it."""

    keys: torch.Tensor
    shift: int
    first_rows: torch.Tensor | None = None
    window: tuple[int, torch.Tensor, torch.Tensor] | None = None

    def seen(self, rows: torch.Tensor, part: slice) -> torch.Tensor | None:
        """Which of a part of the keys these rows see, [rows, keys]; None where they see all of it."""
        if self.window is not None:
            width, places, positions = self.window
            distance = places[rows.cpu()][:, None] - positions[part]
            return ((distance >= 0) & (distance < width)).to(rows.device)
        return None if self.first_rows is None else rows[:, None] >= self.first_rows[part].to(rows.device)


def _stored(tail_key: torch.Tensor, rows: int, segments: Segments, layer: int) -> Iterator[_Stored]:
    """The earlier tokens of the tail, then each view's."""
    earlier, windows = tail_key.shape[2] - rows, segments.windows
    tail, views = tail_key[0, :, :earlier], [(view, view.keys[layer][0]) for view in segments.views]
    width = windows.widths[layer] if windows is not None else None
    if windows is not None and width is not None:
        yield _Stored(tail, 0, window=(width, windows.rows, windows.tail[:earlier]))
        for (view, keys), positions in zip(views, windows.views, strict=True):
            yield _Stored(keys, view.shift, window=(width, windows.rows, positions))
        return
    yield _Stored(tail, 0, torch.tensor(segments.first_rows) if segments.first_rows else None)
    for view, keys in views:
        first = torch.full((keys.shape[1],), view.first_row) if view.first_row else None
        yield _Stored(keys, view.shift, first if view.first_rows is None else view.first_rows)
