"""What a schema and a prompt say, as frozen values.

The parser has applied PML's white-space rules already: the text of a node is the text that gets tokenized. Spans
take no part in equality, so a schema written out and parsed again equals itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from promptcache.source import Span

Role = Literal["system", "user", "assistant"]


@dataclass(frozen=True)
class Text:
    """A run of literal text, never empty."""

    text: str
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Parameter:
    """`length` reserved tokens that an argument fills.

    `space` says that one space of the text before it belongs to the argument. `scaffold` is the placeholder text while
    encoding, `default` the argument when a prompt gives none.
    """

    name: str
    length: int
    scaffold: str | None = None
    default: str | None = None
    space: bool = False
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Module:
    """Reusable text. With `cache` false its own tokens are fresh in every request."""

    name: str
    children: tuple[Node, ...] = ()
    cache: bool = True
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Union:
    """Modules of which a prompt imports at most one; `scaffold` names the member that stands in while encoding."""

    members: tuple[Module | Union, ...]
    scaffold: str | None = None
    span: Span | None = field(default=None, compare=False, repr=False)

    def modules(self) -> Iterator[Module]:
        """All members, those of inner unions included."""
        for member in self.members:
            if isinstance(member, Module):
                yield member
            else:
                yield from member.modules()


@dataclass(frozen=True)
class Turn:
    """A chat turn, rendered with the model's own template."""

    role: Role
    children: tuple[Node, ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False)


Node = Text | Parameter | Module | Union | Turn


@dataclass(frozen=True)
class Scaffold:
    """Paths of modules that are also encoded together."""

    modules: tuple[str, ...]
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Import:
    """A prompt's use of a module, not yet checked against the schema."""

    name: str
    arguments: tuple[tuple[str, str], ...] = ()
    imports: tuple[Import, ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False)
    argument_spans: tuple[tuple[str, Span], ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True)
class NewText:
    """Text of the prompt itself, never empty."""

    text: str
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class NewTurn:
    """A turn of the prompt itself."""

    role: Role
    text: str
    span: Span | None = field(default=None, compare=False, repr=False)
