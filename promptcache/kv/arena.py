"""Blocks side by side in memory, so that neighbours are attended as one."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import cache

import torch

from promptcache.kv.block import KVBlock
from promptcache.kv.transfers import transfers

logger = logging.getLogger(__name__)


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

    @property
    def num_bytes(self) -> int:
        """Bytes of memory that it takes."""
        return KVBlock(self.keys, self.values).num_bytes


@dataclass(frozen=True, eq=False)
class PinnedArena(Arena):
    """An arena in page-locked main memory, from where a GPU takes states while it computes. They lie there token by
    token, so that those of any run of tokens are one piece."""

    @classmethod
    def like(cls, block: KVBlock, num_tokens: int) -> PinnedArena:
        """See `Arena`. Where memory cannot be locked it is ordinary, with a line in the log."""
        layers = (*block.keys, *block.values)
        sizes = [num_tokens * layer.shape[0] * layer.shape[2] for layer in layers]
        parts = torch.split(_locked(sum(sizes), block.keys[0].dtype), sizes)
        shaped = [
            part.view(num_tokens, layer.shape[0], layer.shape[2]).transpose(0, 1)
            for part, layer in zip(parts, layers, strict=True)
        ]
        return cls(tuple(shaped[: block.num_layers]), tuple(shaped[block.num_layers :]))

    def put(self, block: KVBlock, start: int) -> KVBlock:
        """See `Arena`. The states are there when it returns."""
        end = start + block.seq_len
        for ours, theirs in zip((*self.keys, *self.values), (*block.keys, *block.values), strict=True):
            transfers(theirs.device).send(ours[:, start:end].transpose(0, 1), theirs.transpose(0, 1))
        for device in {layer.device for layer in (*block.keys, *block.values)}:
            transfers(device).sent().wait()
        return self.view(start, end)

    @property
    def num_bytes(self) -> int:
        """See `Arena`. torch takes locked memory in powers of two."""
        return 1 << (super().num_bytes - 1).bit_length() if super().num_bytes else 0


def _locked(num_elements: int, dtype: torch.dtype) -> torch.Tensor:
    try:
        return torch.empty(num_elements, dtype=dtype, pin_memory=True)
    except RuntimeError as fault:
        _say_not_locked(str(fault).partition("\n")[0])
        return torch.empty(num_elements, dtype=dtype)


@cache
def _say_not_locked(reason: str) -> None:
    logger.warning("memory cannot be page-locked, and no copy from there goes on beside computing: %s", reason)


def gap(left: KVBlock, right: KVBlock) -> int | None:
    """How many tokens lie between two blocks of one arena; None where the second does not lie behind the first."""
    if left.place is None or right.place is None or left.place[0] is not right.place[0]:
        return None
    between = right.place[1] - left.place[1] - left.seq_len
    return between if between >= 0 else None


def span(left: KVBlock, right: KVBlock) -> KVBlock:
    """Two blocks of one arena and all that lies between as one view."""
    assert left.place is not None and right.place is not None
    arena, start = left.place
    assert isinstance(arena, Arena) and right.place[0] is arena
    return arena.view(start, right.place[1] + right.seq_len)


def coalesce(left: KVBlock, right: KVBlock) -> KVBlock | None:
    """Two blocks as one view, where the second lies right behind the first in one arena; else None."""
    return span(left, right) if gap(left, right) == 0 else None
