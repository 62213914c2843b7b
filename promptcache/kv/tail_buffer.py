"""One buffer for the tails of several rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class TailShape:
    """What a layer's states look like: heads, dims of keys and of values."""

    num_kv_heads: int
    key_dim: int
    value_dim: int
    dtype: torch.dtype
    device: torch.device


class TailBuffer:
    """Rows of up to `capacity` tokens, a slot for each, filled from the front: `keys[layer]` and `values[layer]` are
    [num_kv_heads, slots, capacity, head_dim]. Its rows fill the first slots; `rows` and `lengths` are by slot. What no
    row has written is zero, or left by another row: finite, so that a mask can hide it.

    Rows are first moved on paper, then layer by layer, so that no more than one layer is there twice at a time.
    """

    def __init__(self, capacity: int, layers: Sequence[TailShape]) -> None:
        self.capacity, self.slots = capacity, 0
        self.rows: list[int] = []
        self.lengths: list[int] = []
        self._layers = layers
        self.keys = [self._room(layer, layer.key_dim, 0) for layer in layers]
        self.values = [self._room(layer, layer.value_dim, 0) for layer in layers]

    def resize(self, number: int, slots: int) -> None:
        """A layer with so many slots in place of those that it has; as many as there are in both keep their states."""
        layer = self._layers[number]
        for states, dim in ((self.keys, layer.key_dim), (self.values, layer.value_dim)):
            old = states[number]
            states[number] = self._room(layer, dim, slots)
            kept = min(slots, old.shape[1])
            states[number][:, :kept] = old[:, :kept]

    def copy(self, number: int, slot: int, source: TailBuffer, source_slot: int, length: int) -> None:
        """A row's states in one layer."""
        for ours, theirs in ((self.keys, source.keys), (self.values, source.values)):
            ours[number][:, slot, :length] = theirs[number][:, source_slot, :length]

    def _room(self, layer: TailShape, dim: int, slots: int) -> torch.Tensor:
        return torch.zeros((layer.num_kv_heads, slots, self.capacity, dim), dtype=layer.dtype, device=layer.device)

    @property
    def num_bytes(self) -> int:
        """Bytes of its tensors."""
        return sum(states.numel() * states.element_size() for states in (*self.keys, *self.values))
