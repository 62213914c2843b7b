"""How many bytes a segment's states take on disk by the rule of each codec, worked out from shapes alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class LayerShape:
    """One layer's states of a segment: [num_kv_heads, seq_len, key_dim] and [num_kv_heads, seq_len, value_dim]."""

    num_kv_heads: int
    seq_len: int
    key_dim: int
    value_dim: int
    item_bytes: int

    @property
    def numbers(self) -> int:
        """Keys and values."""
        return self.num_kv_heads * self.seq_len * (self.key_dim + self.value_dim)


def _int8(layer: LayerShape) -> int:
    key_ends = -(-layer.seq_len // 64) * layer.key_dim
    return layer.numbers + 2 * layer.item_bytes * layer.num_kv_heads * (key_ends + layer.seq_len)


CODEC_BYTES: dict[str, Callable[[LayerShape], int]] = {
    "none": lambda layer: layer.numbers * layer.item_bytes,
    "bf16": lambda layer: layer.numbers * 2,
    "int8": _int8,
}
"""Codec to bytes. `int8` is one byte a number and two ends of each range: a range for each key channel of 64 tokens,
and one for each token's values of a head; ends have the dtype of the states."""
