"""One segment's keys and values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch


@dataclass(frozen=True)
class KVBlock:
    """`keys[layer]` and `values[layer]` are [num_kv_heads, seq_len, head_dim], each contiguous or a view of an arena,
    exactly as long as the segment. Head counts and dims may differ between layers.

    A block is read-only from the moment it exists: nobody writes to its tensors, in the store or in a request.
    `place` is the arena that it lies in and its first slot there, if it does.
    """

    keys: tuple[torch.Tensor, ...]
    values: tuple[torch.Tensor, ...]
    place: tuple[object, int] | None = field(default=None, compare=False, repr=False)

    @property
    def num_layers(self) -> int:
        """Layers."""
        return len(self.keys)

    @property
    def seq_len(self) -> int:
        """Tokens."""
        return int(self.keys[0].shape[-2]) if self.keys else 0

    def part(self, start: int, end: int) -> KVBlock:
        """The tokens `[start, end)`, views of this block."""
        return KVBlock(
            tuple(key[:, start:end] for key in self.keys),
            tuple(value[:, start:end] for value in self.values),
            self.place and (self.place[0], self.place[1] + start),
        )

    @classmethod
    def joined(cls, blocks: Sequence[KVBlock]) -> KVBlock:
        """The tokens of one block or more side by side, in a copy."""
        keys = tuple(torch.cat(each, 1) for each in zip(*(block.keys for block in blocks), strict=True))
        values = tuple(torch.cat(each, 1) for each in zip(*(block.values for block in blocks), strict=True))
        return cls(keys, values)

    def copy(self) -> KVBlock:
        """Own, contiguous tensors, exactly as long as the block."""
        return KVBlock(
            tuple(key.clone(memory_format=torch.contiguous_format) for key in self.keys),
            tuple(value.clone(memory_format=torch.contiguous_format) for value in self.values),
        )

    @property
    def num_bytes(self) -> int:
        """Bytes of its tensors."""
        return sum(tensor.numel() * tensor.element_size() for tensor in (*self.keys, *self.values))
