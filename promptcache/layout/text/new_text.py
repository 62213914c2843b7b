"""A prompt's own text to ids, spelled as what stands before it wants it."""

from __future__ import annotations

from collections.abc import Sequence

from promptcache.layout.text.pieces import encode, trailing_special
from promptcache.layout.text.placed import PlacedText
from promptcache.layout.text.tokenizer import Piece, Tokenizer
from promptcache.source import Span


def spell(
    tokenizer: Tokenizer,
    earlier: Sequence[PlacedText],
    pieces: tuple[Piece, ...],
    position: int,
    span: Span | None,
    *,
    behind_bos: bool = False,
) -> tuple[PlacedText, tuple[int, ...]]:
    """New text that will stand at `position`, behind the texts `earlier` (by position), and its ids."""
    before = trailing_special(earlier[-1].pieces) if earlier else None
    start = all(text.pieces == (tokenizer.bos_id,) for text in earlier) and not behind_bos
    ids = encode(tokenizer, pieces, before=before, start=start)
    return PlacedText(position, pieces, before, start, behind_bos, span), ids
