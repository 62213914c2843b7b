"""A prompt made to fit: something is left out of the middle, and what stays is exact text of the original.

LongBench cuts token ids and decodes both ends, which can change text at the seams. Here token borders only say where
to cut the characters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from eval.longbench.parts import PromptParts
from promptcache.errors import RequestError

Encode = Callable[[str], Sequence[int]]
Decode = Callable[[Sequence[int]], str]
Measure = Callable[[PromptParts], int]
Mode = Literal["context", "prompt"]

_BACK_OFF = 8  # A character has at most four bytes, so a border of characters is never more than three tokens away.


def truncate(
    parts: PromptParts,
    max_length: int,
    encode: Encode,
    decode: Decode,
    *,
    mode: Mode = "context",
    overhead: int = 0,
    measure: Measure | None = None,
) -> PromptParts:
    """`parts`, unchanged if they fit, else with text left out of the middle so that they do.

    `encode` adds no special tokens; those, and the chat template's, are counted in `overhead`. `measure` gives the
    tokens of a prompt where they are more than `len(encode(parts.text))`, as when modules are tokenized apart.

    `context` cuts the middle of the context, never instruction or question, and raises RequestError when these alone
    are too long. `prompt` is LongBench's way: the first and the last `max_length // 2` tokens of the whole prompt stay.
    """
    limit = max_length - overhead
    count = measure or (lambda candidate: len(encode(candidate.text)))
    if count(parts) <= limit:
        return parts
    if mode == "context":
        frame = count(PromptParts(parts.before, "", parts.after))
        if frame > limit:
            raise RequestError(
                f"instruction and question take {frame + overhead} tokens, the limit is {max_length}",
                hint="raise --max-length, or let the whole prompt be cut with --truncate prompt",
            )
        ends = _Ends(parts.context, encode, decode)
        start, kept = len(parts.before), limit - frame
    else:
        frame = 0
        ends = _Ends(parts.text, encode, decode)
        start, kept = 0, max(limit, 0) // 2 * 2
    while kept > 0:
        low, high = ends.head((kept + 1) // 2), ends.tail(kept // 2)
        if low >= high:
            kept = min(kept, len(ends.ids)) - 1
            continue
        shorter = parts.without(start + low, start + high)
        taken = count(shorter) - frame
        if taken <= limit - frame:
            return shorter
        # Both ends side by side can take more tokens than they took apart.
        kept = min(kept - 1, kept * (limit - frame) // taken)
    return parts.without(start, start + len(ends.text))


class _Ends:
    """Where the first tokens of a text end and its last ones begin, in characters."""

    def __init__(self, text: str, encode: Encode, decode: Decode) -> None:
        self.text, self.ids = text, tuple(encode(text))
        self._encode, self._decode = encode, decode

    def head(self, count: int) -> int:
        """Where what the first `count` ids spell ends; up to a character earlier if they end inside one."""
        for fewer in range(count, max(count - _BACK_OFF, 0), -1):
            spelled = self._decode(self.ids[:fewer])
            if self.text.startswith(spelled):
                return len(spelled)
        return self._longest(lambda length: len(self._encode(self.text[:length])) <= count)

    def tail(self, count: int) -> int:
        """Where what the last `count` ids spell begins; up to a character later if they begin inside one."""
        for fewer in range(count, max(count - _BACK_OFF, 0), -1):
            spelled = self._decode(self.ids[-fewer:])
            if self.text.endswith(spelled):
                return len(self.text) - len(spelled)
        size = len(self.text)
        return size - self._longest(lambda length: len(self._encode(self.text[size - length :])) <= count)

    def _longest(self, fits: Callable[[int], bool]) -> int:
        """The largest length that fits, for tokenizers that do not decode to the text (they fold case or spaces)."""
        low, high = 0, len(self.text)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if fits(middle) else (low, middle - 1)
        return low
