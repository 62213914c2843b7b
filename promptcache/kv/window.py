"""Attention in layers that see only so far back: a window counts positions, wherever states lie in memory."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from promptcache.kv.kernel import Part, attend
from promptcache.kv.mask import visibility_mask


@dataclass(frozen=True)
class _Seen:
    """The keys from `start` to `end` are those that some row sees; `mask`, [rows, end - start], says which sees which,
    None where every row sees all of them."""

    start: int
    end: int
    mask: torch.Tensor | None


@dataclass(frozen=True, eq=False)
class Windows:
    """Where the tokens of one pass stand. `widths[layer]` is how many positions a row sees, itself included, None for
    all; `rows`, `tail` and each of `views` are the positions, int64, of the new tokens, of all that the tail then
    holds, and of each view's tokens as used. Made anew for each pass."""

    widths: tuple[int | None, ...]
    rows: torch.Tensor
    tail: torch.Tensor
    views: tuple[torch.Tensor, ...]
    _seen: dict[tuple[object, ...], _Seen | None] = field(default_factory=dict, repr=False)

    def attend_tail(
        self,
        folded: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        layer: int,
        scale: float,
        among: torch.Tensor | None,
    ) -> Part:
        """The rows' attention to the tail, themselves included; `among` is the additive [rows, rows] mask of the pass,
        None for causal order."""
        found = self._attend(folded, key, value, self.tail, layer, scale, among, "tail")
        assert found is not None, "a row sees itself"
        return found

    def attend_view(
        self, folded: torch.Tensor, key: torch.Tensor, value: torch.Tensor, layer: int, scale: float, number: int
    ) -> Part | None:
        """The rows' attention to a view; None where none of them sees any of it."""
        return self._attend(folded, key, value, self.views[number], layer, scale, None, number)

    def _attend(
        self,
        folded: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        positions: torch.Tensor,
        layer: int,
        scale: float,
        among: torch.Tensor | None,
        part: object,
    ) -> Part | None:
        group = folded.shape[2] // len(self.rows)
        known = (self.widths[layer], part, group, folded.device)
        if known not in self._seen:
            self._seen[known] = self._look(positions, self.widths[layer], among, group, folded)
        seen = self._seen[known]
        if seen is None:
            return None
        key, value = (states[:, :, seen.start : seen.end] for states in (key, value))
        return attend(folded, key, value, scale=scale, mask=seen.mask, may_blind=part != "tail")

    def _look(
        self, positions: torch.Tensor, width: int | None, among: torch.Tensor | None, group: int, like: torch.Tensor
    ) -> _Seen | None:
        # In main memory, where positions are: asking a device for what it has found would be waiting for it.
        mask = visibility_mask(self.rows, positions, like.dtype, width, among)[0, 0]
        columns = (mask == 0).any(0).nonzero()
        if not len(columns):
            return None
        start, end = int(columns[0]), int(columns[-1]) + 1
        mask = mask[:, start:end]
        return _Seen(start, end, mask.repeat(group, 1).to(like.device) if bool((mask < 0).any()) else None)
