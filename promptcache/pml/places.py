"""Where the tags, attributes and texts of a well-formed document begin: lxml knows lines only, and no columns."""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass

from promptcache.source import Source, Span

# Right for well-formed XML without a DOCTYPE, and for nothing else: lxml has judged the text before we scan it.
_TOKEN = re.compile(
    r"""(?P<skip><!--.*?-->|<\?.*?\?>)
    |<!\[CDATA\[(?P<cdata>.*?)\]\]>
    |(?P<end></[^>]*>)
    |(?P<start><[^\s/>]+(?:[^<>"']+|"[^"]*"|'[^']*')*>)
    |(?P<text>[^<]+)""",
    re.DOTALL | re.VERBOSE,
)
_NAME = re.compile(r"[^\s/>]+")
_ATTRIBUTE = re.compile(r"""([^\s=/]+)\s*=\s*(?:"[^"]*"|'[^']*')""")
_INK = re.compile(r"[^ \t\r\n]")


@dataclass
class Tag:
    """A start tag: its name and its attributes' names as written, all places as offsets into the text.

    `text` is where the run behind the start tag begins, `tail` the run behind the end tag: at its first character that
    is not white space, or at its very start if it has none. `depth` counts from 1.
    """

    name: str
    at: int
    depth: int
    attributes: tuple[tuple[str, int], ...]
    text: int
    tail: int = 0


def scan(text: str) -> list[Tag]:
    """The start tags of a well-formed document, in its order."""
    tags: list[Tag] = []
    parents: list[Tag] = []
    behind: tuple[Tag, str] | None = None  # the run we are in, until its first ink is found
    for token in _TOKEN.finditer(text):
        kind = token.lastgroup
        if kind == "start":
            tag = _start(text, token, len(parents) + 1)
            tags.append(tag)
            if text[token.end() - 2] == "/":
                tag.tail = token.end()
                behind = (tag, "tail")
            else:
                parents.append(tag)
                behind = (tag, "text")
        elif kind == "end":
            tag = parents.pop()
            tag.tail = token.end()
            behind = (tag, "tail")
        elif kind != "skip" and behind and (ink := _INK.search(text, *token.span(kind or 0))):
            setattr(*behind, ink.start())
            behind = None
    return tags


def _start(text: str, token: re.Match[str], depth: int) -> Tag:
    name = _NAME.match(text, token.start() + 1)
    assert name is not None
    found = _ATTRIBUTE.finditer(text, name.end(), token.end())
    return Tag(name[0], token.start(), depth, tuple((match[1], match.start()) for match in found), token.end())


class Places:
    """Turns offsets into a source's text into spans; only a line feed ends a line, as for lxml."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._breaks = [match.start() for match in re.finditer("\n", source.text)]

    def span(self, offset: int) -> Span:
        """The line and column of the character at `offset`."""
        row = bisect_left(self._breaks, offset)
        start = self._breaks[row - 1] + 1 if row else 0
        return Span(self.source, row + 1, offset - start + 1)

    def nearest(self, line: int, column: int) -> Span:
        """That line and column, or where the text ends before: libxml2 counts some lone carriage returns as lines."""
        line = min(max(line, 1), len(self._breaks) + 1)
        start = self._breaks[line - 2] + 1 if line > 1 else 0
        end = self._breaks[line - 1] if line <= len(self._breaks) else len(self.source.text)
        return Span(self.source, line, min(max(column, 1), end - start + 1))
