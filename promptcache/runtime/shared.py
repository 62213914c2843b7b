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
    """Stored states of `length` tokens that are attended in one call, and the rows that use them; who has left may
    still be among them."""

    name: tuple[object, ...]
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
            return Group(name, self._views[name], block.seq_len, uses)

        short: list[_Piece] = []
        found: list[Group] = []
        for piece in _joined(_pieces(rows)):
            if piece.is_whole and piece.block.seq_len <= POOLED_TOKENS:
                short.append(piece)
            else:
                found.append(group(piece.name, piece.block, piece.uses))
        for pool in _pools(short):
            pool = _by_place(pool)
            name = tuple((piece.name, shift) for piece, shift in pool)
            block = _side_by_side(pool)
            if block is None:
                block = self._copies[name] = copies.get(name) or self._gathered(pool, rotations)
            found.append(group(name, block, _pooled_uses(pool)))
        return found

    def keep(self, groups: Sequence[Group]) -> None:
        """Forgets copies that none of these needs."""
        names = {group.name for group in groups}
        self._copies = {name: block for name, block in self._copies.items() if name in names}
        self._views = {name: view for name, view in self._views.items() if name in names}

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
    """Pieces that can be attended in one call, each with the shift that it needs within its pool."""
    pools: list[_Pool] = []
    for piece in pieces:
        for pool in pools:
            shift = pool.shift_for(piece)
            if shift is not None:
                pool.add(piece, shift)
                break
        else:
            pools.append(_Pool())
            pools[-1].add(piece, 0)
    return [pool.pieces for pool in pools]


class _Pool:
    """Pieces that stand as far from each other in every row that uses several, and are mostly used together: what a
    row does not use is hidden from it, and costs as much as what it sees."""

    def __init__(self) -> None:
        self.pieces: list[tuple[_Piece, int]] = []
        self._shifts: dict[int, int] = {}
        self._length = self._used = 0

    def shift_for(self, piece: _Piece) -> int | None:
        """The shift at which a piece fits in; None where it does not."""
        within = {use.shift - self._shifts[row] for row, use in piece.uses.items() if row in self._shifts}
        length = self._length + piece.block.seq_len
        used = self._used + piece.block.seq_len * len(piece.uses)
        half_used = 2 * used >= length * len(self._shifts.keys() | piece.uses.keys())
        return within.pop() if len(within) == 1 and half_used else None

    def add(self, piece: _Piece, shift: int) -> None:
        """One more piece."""
        self.pieces.append((piece, shift))
        self._length += piece.block.seq_len
        self._used += piece.block.seq_len * len(piece.uses)
        for row, use in piece.uses.items():
            self._shifts.setdefault(row, use.shift - shift)


def _by_place(pool: Sequence[tuple[_Piece, int]]) -> list[tuple[_Piece, int]]:
    """In the order in which they lie in their arenas, as far as they do."""
    arenas: list[object] = []

    def place(pooled: tuple[_Piece, int]) -> tuple[int, int]:
        arena, start = pooled[0].block.place or (pooled[0], 0)
        if not any(arena is known for known in arenas):
            arenas.append(arena)
        return next(number for number, known in enumerate(arenas) if known is arena), start

    return sorted(pool, key=place)


def _side_by_side(pool: Sequence[tuple[_Piece, int]]) -> KVBlock | None:
    """A pool as it lies in memory, where nothing is between its pieces and they need no turning; else None."""
    if any(shift for _, shift in pool):
        return None
    whole: KVBlock | None = pool[0][0].block
    for piece, _ in pool[1:]:
        whole = None if whole is None else coalesce(whole, piece.block)
    return whole


def _pooled_uses(pool: Sequence[tuple[_Piece, int]]) -> dict[int, Use]:
    """How each row uses a pool; parts of it that lie side by side and are seen alike are one."""
    shifts: dict[int, int] = {}
    parts: dict[int, list[Seen]] = {}
    start = 0
    for piece, shift in pool:
        end = start + piece.block.seq_len
        for row, use in piece.uses.items():
            first, begin = use.parts[0].first_row, start
            known = parts.setdefault(row, [])
            if known and (known[-1].end, known[-1].first_row) == (start, first):
                begin = known.pop().start
            known.append(Seen(begin, end, first))
            shifts[row] = use.shift - shift
        start = end
    return {row: Use(shifts[row], tuple(seen)) for row, seen in parts.items()}
