"""Blocks side by side in memory, so that neighbours are attended as one."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from promptcache.kv.block import KVBlock


@dataclass(frozen=True, eq=False)
class Arena:
    """Keys and values of many segments, one tensor a layer: [num_kv_heads, num_tokens, head_dim]. Written while its
    blocks are made, read-only afterwards; it lives as long as one of them."""

    keys: tuple[torch.Tensor, ...]
    values: tuple[torch.Tensor, ...]

    @classmethod
    def like(cls, block: KVBlock, num_tokens: int) -> Arena:
        """An arena for blocks of the same heads, dims, dtype and devices."""

        def room(states: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
            return tuple(layer.new_empty((layer.shape[0], num_tokens, layer.shape[2])) for layer in states)

        return cls(room(block.keys), room(block.values))

    def put(self, block: KVBlock, start: int) -> KVBlock:
        """Copies a block to the slots from `start` on; returns the block that lies there."""
        end = start + block.seq_len
        for ours, theirs in zip((*self.keys, *self.values), (*block.keys, *block.values), strict=True):
            ours[:, start:end] = theirs
        return self.view(start, end)

    def view(self, start: int, end: int) -> KVBlock:
        """The slots `[start, end)` as a block, without a copy."""
        keys = tuple(layer[:, start:end] for layer in self.keys)
        values = tuple(layer[:, start:end] for layer in self.values)
        return KVBlock(keys, values, (self, start))


def coalesce(left: KVBlock, right: KVBlock) -> KVBlock | None:
    """Two blocks as one view, where the second lies right behind the first in one arena; else None."""
    if left.place is None or right.place is None:
        return None
    (arena, start), (other, behind) = left.place, right.place
    if arena is not other or start + left.seq_len != behind:
        return None
    assert isinstance(arena, Arena)
    return arena.view(start, behind + right.seq_len)
