"""Blocks copied to a device, side by side as they were."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from promptcache.kv.arena import Arena, PinnedArena
from promptcache.kv.block import KVBlock
from promptcache.layout.encodings.key import SegmentKey
from promptcache.store.base import Blocks


def in_order(blocks: Blocks) -> list[tuple[SegmentKey, KVBlock]]:
    """Blocks in the order of their slots, as far as they have some."""
    return sorted(blocks.items(), key=lambda pair: pair[1].place[1] if pair[1].place is not None else 0)


def by_arena(blocks: Blocks) -> list[dict[SegmentKey, KVBlock]]:
    """Blocks that lie in one arena together; those that lie in none together, too."""
    found: dict[object, dict[SegmentKey, KVBlock]] = {}
    for key, block in blocks.items():
        found.setdefault(block.place[0] if block.place is not None else None, {})[key] = block
    return list(found.values())


def side_by_side(blocks: list[tuple[SegmentKey, KVBlock]], kind: type[Arena] = Arena) -> dict[SegmentKey, KVBlock]:
    """Copies in one arena of that kind, in this order, on the device (a pinned one: in main memory) and in the dtype of
    the first."""
    made: dict[SegmentKey, KVBlock] = {}
    if not blocks:
        return made
    arena, slot = kind.like(blocks[0][1], sum(block.seq_len for _, block in blocks)), 0
    for key, block in blocks:
        made[key] = arena.put(block, slot)
        slot += block.seq_len
    return made


def beside(blocks: Blocks, devices: Sequence[torch.device]) -> dict[SegmentKey, KVBlock]:
    """The blocks on those devices, one a layer, or one for all: those that are there as they are, copies of the others.
    The copies are finished when this returns."""
    moved = {key: _on(block, devices) for key, block in blocks.items()}
    away = {key: block for key, block in moved.items() if block is not blocks[key]}
    order = [(key, away[key]) for key, _ in in_order(blocks) if key in away]
    return {**moved, **side_by_side(order)}


def pinned(blocks: Blocks) -> dict[SegmentKey, KVBlock]:
    """The blocks in page-locked main memory: those that are there as they are, copies of the others. The copies are
    finished when this returns."""
    away = [(k, b) for k, b in in_order(blocks) if b.place is None or not isinstance(b.place[0], PinnedArena)]
    return {**blocks, **side_by_side(away, PinnedArena)}


def _on(block: KVBlock, devices: Sequence[torch.device]) -> KVBlock:
    places = tuple(devices) if len(devices) > 1 else tuple(devices) * block.num_layers
    keys = tuple(states.to(device) for states, device in zip(block.keys, places, strict=True))
    values = tuple(states.to(device) for states, device in zip(block.values, places, strict=True))
    same = all(a is b for a, b in zip((*keys, *values), (*block.keys, *block.values), strict=True))
    return block if same else KVBlock(keys, values)
