"""How each dataset's context is cut into modules. Joined, the pieces are the context, to the byte.

A context that was truncated splits by the same rules; what stands on both sides of the cut is then one piece.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

from eval.longbench.tasks import find_task


class Splitter(Protocol):
    """A rule for one kind of context."""

    @property
    def piece(self) -> str:
        """What one piece is called; modules are named by it."""

    def borders(self, text: str) -> Iterator[int]:
        """Offsets at which a new piece begins, rising; 0 and the end of the text may be among them."""


@dataclass(frozen=True)
class AtMatches:
    """A piece begins at each match. With a group in `pattern`, only where its number is larger than the last one's:
    a heading that a text quotes does not count up."""

    piece: str
    pattern: re.Pattern[str]

    def borders(self, text: str) -> Iterator[int]:
        last = -1
        for match in self.pattern.finditer(text):
            if self.pattern.groups:
                if int(match[1]) <= last:
                    continue
                last = int(match[1])
            yield match.start()


@dataclass(frozen=True)
class Windows:
    """Pieces of at most `size` characters that end at the last match of the first of `ends` that has one in the second
    half of the window; without any, in mid-word."""

    piece: str
    size: int
    ends: tuple[re.Pattern[str], ...]

    def borders(self, text: str) -> Iterator[int]:
        start = 0
        while len(text) - start > self.size:
            start = self._end(text, start)
            yield start

    def _end(self, text: str, start: int) -> int:
        lowest, highest = start + self.size // 2, start + self.size
        for end in self.ends:
            found = [match.end() for match in end.finditer(text, lowest, highest)]
            if found:
                return found[-1]
        return highest


# White space that holds a line break stays with what it ends; a lone space goes with the word behind it, as tokenizers
# have it.
_SENTENCE_END = re.compile(r"""[.!?]["'\u201d\u2019)\]]*(?:\s*\n|(?=[^\S\n]))""")
_LINE_END = re.compile(r"\n")
_WORD_END = re.compile(r"(?<=\S)(?=\s)")

_WINDOW = 2_048  # characters: some 450 tokens of English, about as long as a passage

_PASSAGES = AtMatches("passage", re.compile(r"^Passage ([0-9]{1,6}):", re.MULTILINE))
_PARAGRAPHS = AtMatches("paragraph", re.compile(r"^Paragraph ([0-9]{1,6}):", re.MULTILINE))
_SENTENCES = Windows("window", _WINDOW, (_SENTENCE_END, _LINE_END, _WORD_END))

SPLITTERS: dict[str, Splitter] = {
    "narrativeqa": _SENTENCES,
    "qasper": _SENTENCES,
    "multifieldqa_en": _SENTENCES,
    "hotpotqa": _PASSAGES,
    "2wikimqa": _PASSAGES,
    "musique": _PASSAGES,
    "gov_report": _SENTENCES,
    "qmsum": _SENTENCES,
    "multi_news": _PASSAGES,
    "trec": AtMatches("example", re.compile(r"^Question: ", re.MULTILINE)),
    "triviaqa": AtMatches("example", re.compile(r"^Passage:$", re.MULTILINE)),
    "samsum": AtMatches("example", re.compile(r"^Dialogue: ", re.MULTILINE)),
    "passage_count": _PARAGRAPHS,
    "passage_retrieval_en": _PARAGRAPHS,
    "lcc": Windows("window", _WINDOW, (_LINE_END, _WORD_END)),
    # A file of RepoBench begins with its path on a line of its own.
    "repobench-p": AtMatches("file", re.compile(r"^[\w./+-]+\.(?:py|java)$", re.MULTILINE)),
}

Split = Literal["modular", "whole"]


def split_context(dataset: str, context: str) -> tuple[str, ...]:
    """The context's pieces in its order, none empty; an empty context has none."""
    splitter = SPLITTERS[find_task(dataset).name]
    cuts = [0, *splitter.borders(context), len(context)]
    return tuple(context[low:high] for low, high in itertools.pairwise(cuts) if low < high)
