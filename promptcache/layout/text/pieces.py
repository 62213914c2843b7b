"""Special tokens and runs of text to ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from promptcache.layout.text.tokenizer import Piece, Tokenizer


def join(pieces: Iterable[Piece]) -> tuple[Piece, ...]:
    """Neighbouring runs of text become one run, empty ones vanish: a run is tokenized as a whole."""
    joined: list[Piece] = []
    for piece in pieces:
        if piece == "":
            continue
        last = joined[-1] if joined else None
        if isinstance(piece, str) and isinstance(last, str):
            joined[-1] = last + piece
        else:
            joined.append(piece)
    return tuple(joined)


def encode(tokenizer: Tokenizer, pieces: Sequence[Piece], *, before: int | None, start: bool) -> tuple[int, ...]:
    """Ids of joined pieces. `before`: the special token directly in front of them, if one is; `start`: they open
    the prompt (at most a BOS that the tokenizer itself would add stands in front)."""
    ids: list[int] = []
    behind = before
    for piece in pieces:
        if isinstance(piece, int):
            ids.append(piece)
            start = start and piece == tokenizer.bos_id
            behind = piece
        else:
            ids += tokenizer.encode(piece, behind=behind, start=start)
            start, behind = False, None
    return tuple(ids)


def behind_bos(tokenizer: Tokenizer, text: str) -> str:
    """Text that the template wrote, without a BOS at its front: it opens the prompt, whoever wrote it."""
    bos = tokenizer.bos_id
    pieces = tokenizer.split(text)
    if bos is None or pieces[:1] != (bos,):
        return text
    # The protocol has no spelling of a token: the shortest front that leaves the other pieces as they are.
    return next(text[n:] for n in range(1, len(text) + 1) if tokenizer.split(text[n:]) == pieces[1:])


def trailing_special(pieces: Sequence[Piece]) -> int | None:
    """The special token that the pieces end in, if they do."""
    return pieces[-1] if pieces and isinstance(pieces[-1], int) else None
