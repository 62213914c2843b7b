"""A prompt checked against its schema: names resolved, arguments in place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from promptcache.pml.nodes import Module, NewText, NewTurn
from promptcache.pml.note import Note
from promptcache.pml.schema import Schema
from promptcache.source import Span


@dataclass(frozen=True)
class BoundImport:
    """One import of a module.

    `path` is the module's path in the schema (`miami/beaches`; unions and turns do not show in it). `occurrence` counts
    the earlier imports of that path in the whole prompt. `arguments` holds a text for each parameter that has one,
    given or by default, in the schema's order; an empty text is an argument of zero tokens.
    """

    path: str
    module: Module
    arguments: tuple[tuple[str, str], ...] = ()
    imports: tuple[BoundImport, ...] = ()
    occurrence: int = 0
    span: Span | None = field(default=None, compare=False, repr=False)
    argument_spans: tuple[tuple[str, Span], ...] = field(default=(), compare=False, repr=False)

    def argument_span(self, name: str) -> Span | None:
        """Where the argument was given; the import's place where it was not written in XML."""
        return dict(self.argument_spans).get(name, self.span)


@dataclass(frozen=True)
class BoundPrompt:
    """A prompt whose every import exists.

    `items` is in the prompt's order; `turns` follow the last item. `notes` are warnings.
    """

    schema: Schema | None
    items: tuple[BoundImport | NewText, ...] = ()
    turns: tuple[NewTurn, ...] = ()
    repair: str | None = None
    span: Span | None = field(default=None, compare=False, repr=False)
    notes: tuple[Note, ...] = field(default=(), compare=False, repr=False)

    def imports(self) -> Iterator[BoundImport]:
        """All imports in the prompt's order, an import before those inside it."""
        return _walk(item for item in self.items if isinstance(item, BoundImport))

    def repeats(self) -> Iterator[BoundImport]:
        """The imports of a module that was imported before: layouts that give each module one place refuse them."""
        return (item for item in self.imports() if item.occurrence)


def _walk(imports: Iterable[BoundImport]) -> Iterator[BoundImport]:
    for item in imports:
        yield item
        yield from _walk(item.imports)
