"""What a prompt's ids are made from."""

from __future__ import annotations

from dataclasses import dataclass

from promptcache.layout.text.tokenizer import Piece
from promptcache.source import Span


@dataclass(frozen=True)
class PlacedText:
    """Pieces whose ids stand at `position` and behind it; a stored segment, an argument or new text.

    `before` and `start` say what they were taken to follow, as in `Tokenizer.encode`. `behind_bos`: they open with a
    marker that the template writes behind a BOS of its own.
    """

    position: int
    pieces: tuple[Piece, ...]
    before: int | None
    start: bool
    behind_bos: bool
    span: Span | None
