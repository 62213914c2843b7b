"""Blocks that are kept and evicted together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from promptcache.kv.arena import Arena
from promptcache.kv.block import KVBlock
from promptcache.layout.encodings.key import SegmentKey
from promptcache.store.base import Blocks, Origin
from promptcache.store.mapped import MappedArena

if TYPE_CHECKING:
    from promptcache.store.memory import MemoryTier


class Group:
    """The blocks of one arena, or a block that takes memory of its own (`owner` None). Its tier changes it, under the
    tier's lock; to a lease it is a hold."""

    __slots__ = ("blocks", "leases", "num_bytes", "origin", "owner", "tier", "touched", "used")

    def __init__(
        self, tier: MemoryTier, owner: Arena | None, blocks: dict[SegmentKey, KVBlock], origin: Origin | None
    ) -> None:
        self.tier = tier
        self.owner = owner
        self.blocks = blocks
        self.origin = origin
        self.num_bytes = owner.num_bytes if owner is not None else sum(block.num_bytes for block in blocks.values())
        self.leases = 0
        self.used = 0
        self.touched = 0.0

    @property
    def label(self) -> str:
        """For the log."""
        return f"{len(self.blocks)} blocks of schema {self.origin.schema}" if self.origin else "blocks on disk"

    def is_intact(self) -> bool:
        """Whether the file that the blocks lie in, if they do, is the one that was mapped."""
        return all(
            block.place[0].is_intact()
            for block in self.blocks.values()
            if block.place is not None and isinstance(block.place[0], MappedArena)
        )

    def release(self) -> None:
        """See `Hold`."""
        self.tier.release(self)

    def abandon(self) -> None:
        """See `Hold`."""
        self.tier.abandon(self)


def grouped(blocks: Blocks) -> list[tuple[Arena | None, dict[SegmentKey, KVBlock]]]:
    """Blocks by the arena that owns their memory. One that lies in a mapped file stands for itself: the system can give
    a part of a map back."""
    arenas: dict[Arena, dict[SegmentKey, KVBlock]] = {}
    alone: list[tuple[Arena | None, dict[SegmentKey, KVBlock]]] = []
    for key, block in blocks.items():
        arena = block.place[0] if block.place is not None else None
        if isinstance(arena, Arena) and not isinstance(arena, MappedArena):
            arenas.setdefault(arena, {})[key] = block
        else:
            alone.append((None, {key: block}))
    return [*arenas.items(), *alone]
