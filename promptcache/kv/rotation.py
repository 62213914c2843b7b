"""Keys that stand for another position, and queries turned so that keys may stay where they are.

A rotary embedding (Su et al., 2021) turns each pair of a key's dims by position times frequency. A stored key is used
`shift` positions later by turning it by `shift`; turning the query back by as much gives the same products.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch

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
        return self.apply(states, *self.tables(shifts, states))

    def tables(self, shifts: torch.Tensor, like: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Cosines and sines for `apply`, from angles in float64: [num_shifts, 1, ..., head_dim] in float32."""
        angles = shifts.to("cpu", torch.float64)[:, None] * self.frequencies
        angles = angles.repeat_interleave(2, -1) if self.interleaved else angles.repeat(1, 2)
        angles = torch.nn.functional.pad(angles, (0, like.shape[-1] - angles.shape[-1]))
        shape = (len(shifts), *(1,) * (like.dim() - 1), like.shape[-1])
        return tuple(t.reshape(shape).to(like.device, torch.float32) for t in (angles.cos(), angles.sin()))  # type: ignore[return-value]

    def apply(self, states: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor) -> torch.Tensor:
        """As `turned`, with the tables at hand."""
        exact = states.float()
        return torch.addcmul(exact * cosines, self._quarter(exact), sines).to(states.dtype)

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


def move(block: KVBlock, shift: int, rotations: Rotations) -> KVBlock:
    """The block's states as used `shift` positions later: its own values, keys turned in a copy; itself for shift 0."""
    if shift == 0:
        return block
    shifts = torch.tensor([shift])
    keys = (
        key if rotary is None else rotary.turned(key, shifts)[0]
        for key, rotary in zip(block.keys, rotations, strict=True)
    )
    return KVBlock(tuple(keys), block.values)


@dataclass(frozen=True, eq=False)
class Turns:
    """Queries turned back for stored keys that are used `shifts` (distinct, none 0) positions behind their own."""

    shifts: tuple[int, ...]
    rotations: Rotations

    @cached_property
    def _tables(self) -> dict[Rotary, tuple[torch.Tensor, torch.Tensor]]:
        return {}

    def queries(self, query: torch.Tensor, layer: int) -> dict[int, torch.Tensor]:
        """The query, [batch, heads, rows, head_dim], for keys of each shift, 0 included."""
        rotary = self.rotations[layer]
        if rotary is None:
            return dict.fromkeys((0, *self.shifts), query)
        if rotary not in self._tables:
            self._tables[rotary] = rotary.tables(-torch.tensor(self.shifts), query)
        return {0: query, **dict(zip(self.shifts, rotary.apply(query, *self._tables[rotary]), strict=True))}
