"""Keys that stand for another position, and queries turned so that keys may stay where they are.

A rotary embedding (Su et al., 2021) turns each pair of a key's dims by position times frequency. A stored key is used
`shift` positions later by turning it by `shift`; turning the query back by as much gives the same products.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch

from promptcache.kv.arena import Arena
from promptcache.kv.block import KVBlock


@dataclass(frozen=True, eq=False)
class Rotary:
    """How one or more layers turn their keys: radians a position for each pair of the first dims, float64 [pairs], and
    whether dims 2i and 2i+1 are a pair, or i and i+pairs. The other dims are left alone."""

    frequencies: torch.Tensor
    interleaved: bool = False

    def turned(self, states: torch.Tensor, shifts: torch.Tensor) -> torch.Tensor:
        """States as if each stood `shift` positions later: [..., seq_len, head_dim] and [num_shifts] give
        [num_shifts, ..., seq_len, head_dim], in the dtype of `states`."""
        tables = self.tables(shifts, states)
        return self.apply(states, *(table.view(-1, *(1,) * (states.dim() - 1), table.shape[-1]) for table in tables))

    def tables(self, shifts: torch.Tensor, like: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Cosines and sines for `apply`, from angles in float64: [num_shifts, head_dim] in float32."""
        angles = shifts.to("cpu", torch.float64)[:, None] * self.frequencies
        angles = angles.repeat_interleave(2, -1) if self.interleaved else angles.repeat(1, 2)
        angles = torch.nn.functional.pad(angles, (0, like.shape[-1] - angles.shape[-1]))
        return angles.cos().to(like.device, torch.float32), angles.sin().to(like.device, torch.float32)

    def apply(self, states: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor) -> torch.Tensor:
        """States [..., seq_len, head_dim] turned by tables that broadcast with them, in the dtype of `states`."""
        exact = states.float()
        return (exact * cosines).addcmul_(self._quarter(exact), sines).to(states.dtype)

    def _quarter(self, states: torch.Tensor) -> torch.Tensor:
        """Each pair turned by a right angle, zeros in the dims that are left alone."""
        pairs = len(self.frequencies)
        turning = states[..., : 2 * pairs]
        if self.interleaved:
            quarter = torch.stack((-turning[..., 1::2], turning[..., ::2]), -1).flatten(-2)
        else:
            quarter = torch.cat((-turning[..., pairs:], turning[..., :pairs]), -1)
        rest = states.shape[-1] - 2 * pairs
        return torch.nn.functional.pad(quarter, (0, rest)) if rest else quarter


Rotations = tuple[Rotary | None, ...]
"""One for each layer; None where a layer's keys do not depend on positions. Layers that turn alike share an object."""


def gather(blocks: Sequence[tuple[KVBlock, int]], rotations: Rotations | None, target: KVBlock) -> None:
    """Fills `target` with copies of these blocks, side by side, each as used that many positions later: values as they
    are, keys turned. Without a shift no rotation is needed."""
    for ours, theirs in ((target.keys, [b.keys for b, _ in blocks]), (target.values, [b.values for b, _ in blocks])):
        for layer, each in zip(ours, zip(*theirs, strict=True), strict=True):
            torch.cat(each, 1, out=layer)
    if not any(shift for _, shift in blocks):
        return
    assert rotations is not None
    shifts = torch.tensor([shift for _, shift in blocks])
    lengths = torch.tensor([block.seq_len for block, _ in blocks])
    tables: dict[tuple[Rotary, torch.device], tuple[torch.Tensor, torch.Tensor]] = {}
    for key, rotary in zip(target.keys, rotations, strict=True):
        if rotary is not None:
            known = (rotary, key.device)
            if known not in tables:
                by_token = lengths.to(key.device)
                cosines, sines = (
                    # With the size told no device is asked for it, and waited for.
                    torch.repeat_interleave(t, by_token, 0, output_size=target.seq_len)
                    for t in rotary.tables(shifts, key)
                )
                tables[known] = cosines, sines
            key.copy_(rotary.apply(key, *tables[known]))


def moved(block: KVBlock, shift: int, rotations: Rotations) -> KVBlock:
    """A copy of one block as used `shift` positions later."""
    copy = Arena.like(block, block.seq_len).view(0, block.seq_len)
    gather([(block, shift)], rotations, copy)
    return copy


@dataclass(frozen=True, eq=False)
class Turns:
    """Queries turned back for stored keys that are used `shifts` (distinct, none 0) positions behind their own."""

    shifts: tuple[int, ...]
    rotations: Rotations

    @cached_property
    def _tables(self) -> dict[tuple[Rotary, torch.device], tuple[torch.Tensor, torch.Tensor]]:
        return {}

    def queries(self, query: torch.Tensor, layer: int) -> dict[int, torch.Tensor]:
        """The query, [batch, heads, rows, head_dim], for keys of each shift, 0 included."""
        rotary = self.rotations[layer]
        if rotary is None:
            return dict.fromkeys((0, *self.shifts), query)
        known = (rotary, query.device)
        if known not in self._tables:
            tables = rotary.tables(-torch.tensor(self.shifts), query)
            cosines, sines = (table[:, None, None, None] for table in tables)
            self._tables[known] = cosines, sines
        return {0: query, **dict(zip(self.shifts, rotary.apply(query, *self._tables[known]), strict=True))}
