"""Which stored states the rows of a batch have in common, so that each is attended once for all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from promptcache.kv.arena import Arena
from promptcache.kv.block import KVBlock
from promptcache.kv.devices import Devices
from promptcache.kv.prefetch import fetched
from promptcache.kv.rotation import Rotations, gather
from promptcache.kv.segment_view import SegmentView
from promptcache.runtime.batch.pieces import Piece, Reused, Use, joined, pieces
from promptcache.runtime.batch.pools import by_place, pooled_uses, pools, side_by_side

POOLED_TOKENS = 128
"""Stretches of up to so many stored tokens are pooled: attended in one call, gathered in one copy for the whole batch
where they do not lie side by side. A call of the kernel for each of them, in every layer, takes longer."""


@dataclass(frozen=True)
class Group:
    """Stored states of `length` tokens that are attended in one call, and the rows that use them; who has left may
    still be among them."""

    name: tuple[object, ...]
    view: SegmentView
    length: int
    uses: Mapping[int, Use]


class SharedStates:
    """Groups for one set of rows after the other. Copies that were made for a set, together or to another device, serve
    the next one, if it has them in the same company."""

    def __init__(self, devices: Devices) -> None:
        self._devices = devices
        self._copies: dict[tuple[object, ...], KVBlock] = {}
        self._views: dict[tuple[object, ...], SegmentView] = {}

    @property
    def num_bytes(self) -> int:
        """Bytes of copies of stored states."""
        return sum(block.num_bytes for block in self._copies.values())

    def groups(self, rows: Mapping[int, Sequence[Reused]], rotations: Rotations | None) -> list[Group]:
        """All that the rows use, each token of it in one group."""
        copies, self._copies = self._copies, {}
        views, self._views = self._views, {}

        def group(name: tuple[object, ...], block: KVBlock, uses: Mapping[int, Use]) -> Group:
            self._views[name] = views.get(name) or fetched((SegmentView.of(block, 0),), self._devices)[0]
            return Group(name, self._views[name], block.seq_len, uses)

        short: list[Piece] = []
        found: list[Group] = []
        for piece in joined(pieces(rows)):
            if piece.is_whole and piece.block.seq_len <= POOLED_TOKENS:
                short.append(piece)
            else:
                found.append(group(piece.name, piece.block, piece.uses))
        for pool in pools(short):
            pool = by_place(pool)
            name = tuple((piece.name, shift) for piece, shift in pool)
            block = side_by_side(pool)
            if block is None:
                block = self._copies[name] = copies.get(name) or self._gathered(pool, rotations)
            found.append(group(name, block, pooled_uses(pool)))
        return found

    def keep(self, groups: Sequence[Group]) -> None:
        """Forgets copies that none of these needs."""
        names = {group.name for group in groups}
        self._copies = {name: block for name, block in self._copies.items() if name in names}
        self._views = {name: view for name, view in self._views.items() if name in names}

    def _gathered(self, pool: Sequence[tuple[Piece, int]], rotations: Rotations | None) -> KVBlock:
        parts = [(self._devices.near(piece.block), shift) for piece, shift in pool]
        tokens = sum(block.seq_len for block, _ in parts)
        copy = Arena.like(parts[0][0], tokens).view(0, tokens)
        gather(parts, rotations, copy)
        return copy
