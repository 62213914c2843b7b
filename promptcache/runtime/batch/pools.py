"""Short pieces of stored states that are attended in one call."""

from __future__ import annotations

from collections.abc import Sequence

from promptcache.kv.arena import coalesce
from promptcache.kv.block import KVBlock
from promptcache.runtime.batch.pieces import Piece, Seen, Use


def pools(pieces: Sequence[Piece]) -> list[list[tuple[Piece, int]]]:
    """Pieces that can be attended in one call, each with the shift that it needs within its pool."""
    found: list[Pool] = []
    for piece in pieces:
        for pool in found:
            shift = pool.shift_for(piece)
            if shift is not None:
                pool.add(piece, shift)
                break
        else:
            found.append(Pool())
            found[-1].add(piece, 0)
    return [pool.pieces for pool in found]


class Pool:
    """Pieces that stand as far from each other in every row that uses several, and are mostly used together: what a
    row does not use is hidden from it, and costs as much as what it sees."""

    def __init__(self) -> None:
        self.pieces: list[tuple[Piece, int]] = []
        self._shifts: dict[int, int] = {}
        self._length = self._used = 0

    def shift_for(self, piece: Piece) -> int | None:
        """The shift at which a piece fits in; None where it does not."""
        within = {use.shift - self._shifts[row] for row, use in piece.uses.items() if row in self._shifts}
        length = self._length + piece.block.seq_len
        used = self._used + piece.block.seq_len * len(piece.uses)
        half_used = 2 * used >= length * len(self._shifts.keys() | piece.uses.keys())
        return within.pop() if len(within) == 1 and half_used else None

    def add(self, piece: Piece, shift: int) -> None:
        """One more piece."""
        self.pieces.append((piece, shift))
        self._length += piece.block.seq_len
        self._used += piece.block.seq_len * len(piece.uses)
        for row, use in piece.uses.items():
            self._shifts.setdefault(row, use.shift - shift)


def by_place(pool: Sequence[tuple[Piece, int]]) -> list[tuple[Piece, int]]:
    """In the order in which they lie in their arenas, as far as they do."""
    arenas: list[object] = []

    def place(pooled: tuple[Piece, int]) -> tuple[int, int]:
        arena, start = pooled[0].block.place or (pooled[0], 0)
        if not any(arena is known for known in arenas):
            arenas.append(arena)
        return next(number for number, known in enumerate(arenas) if known is arena), start

    return sorted(pool, key=place)


def side_by_side(pool: Sequence[tuple[Piece, int]]) -> KVBlock | None:
    """A pool as it lies in memory, where nothing is between its pieces and they need no turning; else None."""
    if any(shift for _, shift in pool):
        return None
    whole: KVBlock | None = pool[0][0].block
    for piece, _ in pool[1:]:
        whole = None if whole is None else coalesce(whole, piece.block)
    return whole


def pooled_uses(pool: Sequence[tuple[Piece, int]]) -> dict[int, Use]:
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
