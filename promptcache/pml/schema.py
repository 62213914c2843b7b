"""A schema as a value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from promptcache.errors import SchemaError
from promptcache.pml.canonical import canonical
from promptcache.pml.faults import Faults
from promptcache.pml.nodes import Module, Node, Role, Scaffold, Text, Turn
from promptcache.pml.note import Note
from promptcache.pml.rules import check_schema
from promptcache.pml.scope import find, walk
from promptcache.pml.writer import write_schema
from promptcache.source import Span


@dataclass(frozen=True)
class Schema:
    """Text modules and where they sit. Every schema that exists obeys PML's rules: making another raises SchemaError.

    `children` are kept in canonical form (`canonical`), so that equal content is equal. `notes` are warnings found
    while parsing; they and `span` take no part in equality.
    """

    name: str
    children: tuple[Node, ...] = ()
    scaffolds: tuple[Scaffold, ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False)
    notes: tuple[Note, ...] = field(default=(), compare=False, repr=False)

    def __post_init__(self) -> None:
        faults = Faults()
        check_schema(self.name, self.children, self.scaffolds, self.span, faults)
        faults.raise_first()
        object.__setattr__(self, "children", canonical(self.children))
        object.__setattr__(self, "scaffolds", tuple(self.scaffolds))

    @classmethod
    def from_modules(
        cls,
        modules: Mapping[str, str],
        *,
        name: str,
        intro: str | None = None,
        role: Role | None = None,
        separator: str = "\n",
    ) -> Schema:
        """A schema of one module for each name and text, behind an introduction that is in every prompt.

        Texts are taken to the byte and never parsed. `role` puts all of it into one turn. `separator` joins the end of
        the introduction and of each module that is not empty. Raises SchemaError.
        """
        for text in (name, intro or "", separator, *modules, *modules.values()):
            if not isinstance(text, str):
                raise SchemaError(
                    f"names and texts are str, not {type(text).__name__}", hint="convert it to text first"
                )
        texts = [Text(intro + separator)] if intro else []
        nodes = tuple(Module(key, (Text(text + separator),) if text else ()) for key, text in modules.items())
        children: tuple[Node, ...] = (*texts, *nodes)
        return cls(name, (Turn(role, children),) if role else children)

    def to_xml(self) -> str:
        """The schema as PML that parses to an equal one. Raises SchemaError for text that XML cannot carry."""
        return write_schema(self.name, self.children, self.scaffolds)

    def module(self, path: str) -> Module | None:
        """The module at a path like `miami/beaches` (unions and turns do not show in it), or None."""
        return find(self.children, path)

    def walk_modules(self) -> Iterator[tuple[str, Module]]:
        """All modules with their paths in document order, a module before those inside it."""
        return walk(self.children)
