"""A warning about a text that is legal, and may not be what its writer meant."""

from __future__ import annotations

from dataclasses import dataclass, field

from promptcache.source import Span


@dataclass(frozen=True)
class Note:
    """What may be wrong, and where."""

    message: str
    span: Span | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.span}: {self.message}" if self.span else self.message
