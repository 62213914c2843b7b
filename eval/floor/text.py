"""Ordinary English of an exact number of tokens, so that no side reads random ids."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

Count = Callable[[str], int]

_WHO = ("The baker", "A nurse", "My neighbour", "The old captain", "Her cousin", "Our teacher", "A young painter")
_FROM = ("from Bristol", "in the blue coat", "with two dogs", "across the street", "of the night ferry", "at the mill")
_DID = ("sold", "repaired", "carried", "forgot", "painted", "measured", "hid", "borrowed", "counted", "described")
_WHAT = ("three loaves of bread", "a broken clock", "the garden gate", "some letters", "a box of lamps", "the last map")
_WHERE = ("behind the station", "near the harbour", "under the bridge", "in the library", "by the river", "on the hill")
_WHEN = ("before the rain began", "while nobody looked", "on a cold morning", "after the market closed", "in June")

OPENINGS = (
    *("Why", "How", "When", "Where", "Who", "What", "Is", "Are", "Can", "Do", "Tell", "Name", "Give", "Please", "List"),
    *("Did", "Will", "Has", "Must", "Should", "Could", "Would", "Now", "Then", "Say", "Find", "Show", "But", "Or"),
    *("Yes", "Let", "Just", "Explain", "Under", "Very", "Keep", "Quick", "Join", "Zero", "Even", "Back", "Good"),
)
"""Words that a question may begin with."""

_TRIES = 50

_FILLERS = (" so", "!", ",", ".", "?", " x", "\n")


def words(seed: object) -> Iterator[str]:
    """Sentences without end, word by word; another seed gives others."""
    draw = random.Random(repr(seed))
    while True:
        parts = [draw.choice(choices) for choices in (_WHO, _FROM, _DID, _WHAT, _WHERE, _WHEN)]
        yield from f"{' '.join(parts)}.".split()


def fitted(source: Sequence[str], tokens: int, count: Count, end: str = "") -> tuple[str, int]:
    """As many words from the front as make `tokens` tokens, then `end`; and how many words were taken.

    Where the words leave a token or two, fillers follow them; where a tokenizer allows no exact length, the text is the
    longest found below it. A first word that does not fit is cut.
    """
    taken = bisect_right(range(1, len(source) + 1), tokens, key=lambda size: count(" ".join(source[:size]) + end))
    text = " ".join(source[:taken])
    if not taken:
        size = bisect_right(range(1, len(source[0]) + 1), tokens, key=lambda size: count(source[0][:size] + end))
        text = source[0][:size]
    while (length := count(text + end)) < tokens:
        longer = (text + filler for filler in _FILLERS)
        text, before = next((found for found in longer if length < count(found + end) <= tokens), text), text
        if text == before:
            break
    return text + end, taken


def texts(sizes: Sequence[int], count: Count, seed: object) -> list[str]:
    """Texts of these numbers of tokens, each ending in a line break, that go on where the one before ended.

    No two are alike where their size allows it: modules with the same text would share their states.
    """
    source, found = words(seed), []
    rest: list[str] = []
    for size in sizes:
        for skipped in range(_TRIES):
            rest = rest[1:] if skipped else rest
            # A word is a token at least.
            rest += islice(source, max(size + 1 - len(rest), 0))
            text, taken = fitted(rest, size, count, "\n")
            if text not in found:
                break
        found.append(text)
        rest = rest[max(taken, 1) :]
    return found


def split_evenly(tokens: int, parts: int) -> list[int]:
    """Sizes of parts that differ by one at most."""
    return [tokens // parts + (number < tokens % parts) for number in range(parts)]


class Questions:
    """New texts of `tokens` tokens, each unlike the others from its first token on as long as there are openings with
    different first tokens; after that it is unlike the ones just before it."""

    def __init__(self, encode: Callable[[str], Sequence[int]], tokens: int, seed: int) -> None:
        self._count: Count = lambda text: len(encode(text))
        self._tokens, self._seed = tokens, seed
        firsts: dict[int, str] = {}
        for opening in OPENINGS:
            text, _ = fitted([opening], tokens, self._count)
            firsts.setdefault(encode(text)[0], opening)
        self._openings = list(firsts.values())

    def text(self, number: int) -> str:
        """The question of that number."""
        rest = islice(words(("question", self._seed, number)), self._tokens)
        opening = self._openings[number % len(self._openings)]
        return fitted([opening, *rest], self._tokens, self._count)[0]
