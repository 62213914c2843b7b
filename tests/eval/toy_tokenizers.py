"""Tokenizers with the odd ways of real ones, as (encode, decode)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from eval.longbench.truncate import Decode, Encode

_words: list[str] = []


def _pieces(cut: Callable[[str], list[str]], show: Callable[[str], str] = str) -> tuple[Encode, Decode]:
    def encode(text: str) -> list[int]:
        ids = []
        for piece in cut(text):
            if piece not in _words:
                _words.append(piece)
            ids.append(_words.index(piece))
        return ids

    return encode, lambda ids: show("".join(_words[i] for i in ids))


def _encode_bytes(text: str) -> list[int]:
    return list(text.encode())


def _decode_bytes(ids: Sequence[int]) -> str:
    return bytes(ids).decode(errors="replace")


TOKENIZERS: dict[str, tuple[Encode, Decode]] = {
    "characters": _pieces(list),
    "bytes": (_encode_bytes, _decode_bytes),
    "words": _pieces(lambda text: re.findall(r"\s*\S+|\s+$", text)),
    # Drops the space before what it decodes, as SentencePiece does.
    "stripped": _pieces(lambda text: re.findall(r"\s*\S+|\s+$", text), str.lstrip),
    # Decodes to something else than the text.
    "folding": _pieces(lambda text: re.findall(r"\s*\S+|\s+$", text), str.lower),
    # Borders depend on what stands before: two ends side by side can take more tokens than apart.
    "threes": _pieces(lambda text: [text[i : i + 3] for i in range(0, len(text), 3)]),
    # Spells nothing back at all.
    "mute": _pieces(list, lambda _: "\ufffd"),
}
