"""Stored segments as the rows of a batch use them: cut so that of each piece every row uses all or nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from promptcache.kv.arena import coalesce
from promptcache.kv.block import KVBlock
from promptcache.layout.encodings.key import SegmentKey

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
class Piece:
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


def pieces(rows: Mapping[int, Sequence[Reused]]) -> Iterator[Piece]:
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
                yield Piece((key, start, end), every[0].block.part(start, end), uses)


def joined(apart: Iterator[Piece]) -> list[Piece]:
    """Pieces that lie side by side and are used alike are one."""
    found: list[Piece] = []
    last: dict[tuple[object, ...], int] = {}
    for piece in apart:
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
