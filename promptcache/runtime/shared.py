"""Which stored states the rows of a batch have in common, so that each is attended once for all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from promptcache.kv.arena import Arena, coalesce
from promptcache.kv.block import KVBlock
from promptcache.kv.devices import Devices
from promptcache.kv.prefetch import fetched
from promptcache.kv.rotation import Rotations, gather
from promptcache.kv.segments import SegmentView
from promptcache.layout.key import SegmentKey

POOLED_TOKENS = 128
"""Stretches of up to so many stored tokens are pooled: attended in one call, gathered in one copy for the whole batch
where they do not lie side by side. A call of the kernel for each of them, in every layer, takes longer."""

_MOST_PIECES = 8
"""A segment of which rows use parts is cut where these begin and end. Into more pieces than that it is not cut, and a
mask says who sees what."""


@dataclass(frozen=True)
class Reused:
    """The tokens `[start, end)` of a stored segment, whose states are `block`, as a row uses them: `shift` positions
    behind their own, seen by the row's new tokens from `first_row` on."""

    key: SegmentKey
    block: KVBlock
    start: int
    end: int
    shift: int
    first_row: int


@dataclass(frozen=True)
class Seen:
    """The tokens `[start, end)` of a group are seen from the row's new token `first_row` on."""

    start: int
    end: int
    first_row: int


@dataclass(frozen=True)
class Use:
    """How a row uses a group: `shift` positions behind its place, and as much of it as `parts` say, by `start`."""

    shift: int
    parts: tuple[Seen, ...]


@dataclass(frozen=True)
class Group:
    """Stored states of `length` tokens that are attended in one call, and the rows that use them."""

    view: SegmentView
    length: int
    uses: Mapping[int, Use]


@dataclass(frozen=True)
class _Piece:
    """Tokens of one segment, `name`d so that equal names have equal states, and who uses them."""

    name: tuple[object, ...]
    block: KVBlock
    uses: dict[int, Use]

    @property
    def is_whole(self) -> bool:
        """Whether every row that uses it sees all of it from one token on."""
        return all(len(use.parts) == 1 and use.parts[0].start == 0 for use in self.uses.values()) and all(
            use.parts[0].end == self.block.seq_len for use in self.uses.values()
        )


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
            return Group(self._views[name], block.seq_len, uses)

        short: list[_Piece] = []
        found: list[Group] = []
        for piece in _joined(_pieces(rows)):
            if piece.is_whole and piece.block.seq_len <= POOLED_TOKENS:
                short.append(piece)
            else:
                found.append(group(piece.name, piece.block, piece.uses))
        for pool in _pools(short):
            name = tuple((piece.name, shift) for piece, shift in pool)
            block = pool[0][0].block
            if len(pool) > 1:
                block = self._copies[name] = copies.get(name) or self._gathered(pool, rotations)
            found.append(group(name, block, _pooled_uses(pool)))
        return found

    def _gathered(self, pool: Sequence[tuple[_Piece, int]], rotations: Rotations | None) -> KVBlock:
        parts = [(self._devices.near(piece.block), shift) for piece, shift in pool]
        tokens = sum(block.seq_len for block, _ in parts)
        copy = Arena.like(parts[0][0], tokens).view(0, tokens)
        gather(parts, rotations, copy)
        return copy


def _pieces(rows: Mapping[int, Sequence[Reused]]) -> Iterator[_Piece]:
    """Segments, cut where a row's use of them begins or ends. A segment that a row uses twice is two."""
    segments: dict[tuple[SegmentKey, int], dict[int, list[Reused]]] = {}
    for row, runs in rows.items():
        shifts: dict[SegmentKey, list[int]] = {}
        for run in runs:
            known = shifts.setdefault(run.key, [])
            if run.shift not in known:
                known.append(run.shift)
            segments.setdefault((run.key, known.index(run.shift)), {}).setdefault(row, []).append(run)
    for (key, _), by_row in segments.items():
        every = [run for runs in by_row.values() for run in runs]
        cuts = sorted({run.start for run in every} | {run.end for run in every})
        if len(cuts) > _MOST_PIECES + 1:
            cuts = [cuts[0], cuts[-1]]
        for start, end in pairwise(cuts):
            uses = {}
            for row, runs in by_row.items():
                seen = [
                    Seen(max(run.start, start) - start, min(run.end, end) - start, run.first_row)
                    for run in runs
                    if run.start < end and start < run.end
                ]
                if seen:
                    uses[row] = Use(runs[0].shift, tuple(seen))
            if uses:
                yield _Piece((key, start, end), every[0].block.part(start, end), uses)


def _joined(pieces: Iterator[_Piece]) -> list[_Piece]:
    """Pieces that lie side by side and are used alike are one."""
    found: list[_Piece] = []
    last: dict[tuple[object, ...], int] = {}
    for piece in pieces:
        if not piece.is_whole:
            found.append(piece)
            continue
        alike = tuple((row, use.shift, use.parts[0].first_row) for row, use in sorted(piece.uses.items()))
        before = last.get(alike)
        whole = None if before is None else coalesce(found[before].block, piece.block)
        if before is None or whole is None:
            last[alike] = len(found)
            found.append(piece)
            continue
        uses = {
            row: Use(use.shift, (Seen(0, whole.seq_len, use.parts[0].first_row),)) for row, use in piece.uses.items()
        }
        found[before] = replace(found[before], name=(*found[before].name, piece.name), block=whole, uses=uses)
    return found


def _pools(pieces: Sequence[_Piece]) -> list[list[tuple[_Piece, int]]]:
    """Pieces that can be attended in one call, each with the shift that it needs within its pool: in every row they
    stand as far from each other as in all others."""
    pools: list[list[tuple[_Piece, int]]] = []
    bases: list[dict[int, int]] = []
    for piece in pieces:
        for pool, base in zip(pools, bases, strict=True):
            within = {use.shift - base[row] for row, use in piece.uses.items() if row in base}
            if len(within) == 1:
                (shift,) = within
                pool.append((piece, shift))
                base.update((row, use.shift - shift) for row, use in piece.uses.items() if row not in base)
                break
        else:
            pools.append([(piece, 0)])
            bases.append({row: use.shift for row, use in piece.uses.items()})
    return pools


def _pooled_uses(pool: Sequence[tuple[_Piece, int]]) -> dict[int, Use]:
    uses: dict[int, Use] = {}
    start = 0
    for piece, shift in pool:
        end = start + piece.block.seq_len
        for row, use in piece.uses.items():
            part = Seen(start, end, use.parts[0].first_row)
            known = uses.get(row, Use(use.shift - shift, ()))
            if known.parts and (known.parts[-1].end, known.parts[-1].first_row) == (start, part.first_row):
                part = replace(part, start=known.parts[-1].start)
                known = replace(known, parts=known.parts[:-1])
            uses[row] = replace(known, parts=(*known.parts, part))
        start = end
    return uses
