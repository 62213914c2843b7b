"""Where a piece of text came from, so that every error can point at it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Source:
    """A text and the name by which a person knows it (a file's path, `<prompt>`, `<schema>`)."""

    name: str
    text: str = field(repr=False)

    def line(self, number: int) -> str:
        """Line `number` (from 1) without its line break; empty when there is no such line."""
        lines = self.text.split("\n")
        return lines[number - 1].rstrip("\r") if 0 < number <= len(lines) else ""


@dataclass(frozen=True)
class Span:
    """A place in a source: line and column, both from 1."""

    source: Source
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.source.name}:{self.line}:{self.column}"
