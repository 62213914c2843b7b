"""A prompt checked against its schema: names resolved, arguments in place."""

from __future__ import annotations

from dataclasses import dataclass, field

from promptcache.pml.nodes import Module, NewText, NewTurn
from promptcache.pml.schema import Schema
from promptcache.source import Span


@dataclass(frozen=True)
class BoundImport:
    """One import of a module.

    `path` is the module's path in the schema (`miami/beaches`; unions and turns do not show in it), `occurrence` counts
    repeats of the same module from 0, and `arguments` holds a text for each parameter that has one, given or by
    """

    path: str
    module: Module
    arguments: tuple[tuple[str, str], ...] = ()
    imports: tuple[BoundImport, ...] = ()
    occurrence: int = 0
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class BoundPrompt:
    """A prompt whose every import exists. `items` is in the prompt's order; `turns` follow the last item."""

    schema: Schema | None
    items: tuple[BoundImport | NewText, ...] = ()
    turns: tuple[NewTurn, ...] = ()
    repair: str | None = None
    span: Span | None = field(default=None, compare=False, repr=False)
