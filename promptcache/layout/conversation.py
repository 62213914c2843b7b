"""A conversation rendered as a whole, and what the template writes around each turn's content."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rendering:
    """`gaps[i]` is what the template writes before turn i's content; `gaps[-1]` what it writes behind the last.

    `strips` says that the template drops white space at the edges of contents.
    """

    gaps: tuple[str, ...]
    strips: bool


@dataclass(frozen=True)
class Markers:
    """What the template writes to open and to close one turn in one conversation."""

    open: str
    close: str
