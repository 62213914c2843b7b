"""A schema with its text as token ids: what a layout policy gives positions to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from promptcache.layout.text.conversation import Markers
from promptcache.layout.text.tokenizer import Piece
from promptcache.pml.note import Note
from promptcache.source import Span


@dataclass(frozen=True)
class SegmentNode:
    """The unit of encoding and storage: a run of text and markers that a prompt takes or leaves as a whole.

    `index` numbers the segments of a schema in document order; `pieces` is what the ids were made from. `before` and
    `start` say what they were taken to follow, as in `Tokenizer.encode`; `behind_bos`: they open with a marker that the
    template writes behind a BOS of its own, which is not among them.
    """

    index: int
    ids: tuple[int, ...]
    pieces: tuple[Piece, ...]
    before: int | None = None
    start: bool = False
    behind_bos: bool = False
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def length(self) -> int:
        """Tokens."""
        return len(self.ids)


@dataclass(frozen=True)
class ParameterNode:
    """`length` slots; while encoding they hold `placeholder` (exactly `length` ids).

    `before` and `start` say what an argument's text follows, as in `Tokenizer.encode`.
    """

    name: str
    length: int
    placeholder: tuple[int, ...]
    space: bool
    before: int | None = None
    start: bool = False
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class ModuleNode:
    """A module's items in document order. The root of a schema is one as well, with an empty path."""

    path: str
    items: tuple[Item, ...]
    cache: bool = True
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def length(self) -> int:
        """Positions from its start to its end, parameters and unions at full length."""
        return sum(item.length for item in self.items)

    def segments(self) -> Iterator[SegmentNode]:
        """Its own segments, not those of nested modules or unions."""
        return (item for item in self.items if isinstance(item, SegmentNode))

    def children(self) -> Iterator[ModuleNode]:
        """The modules that can be imported directly inside it."""
        for item in self.items:
            if isinstance(item, ModuleNode):
                yield item
            elif isinstance(item, UnionNode):
                yield from item.members

    def walk(self) -> Iterator[ModuleNode]:
        """Itself and all modules below it, in document order."""
        yield self
        for child in self.children():
            yield from child.walk()


@dataclass(frozen=True)
class UnionNode:
    """Modules that start at one position, inner unions flattened; as long as its longest member."""

    members: tuple[ModuleNode, ...]
    scaffold: str | None = None
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def length(self) -> int:
        """Positions of the longest member."""
        return max((member.length for member in self.members), default=0)


Item = SegmentNode | ParameterNode | ModuleNode | UnionNode


@dataclass(frozen=True)
class SchemaTree:
    """A tokenized schema.

    `markers[i]` is what the template writes around the schema's turn number i (document order, all modules included).
    `open_turn` says that the last turn is a user turn at the very end, whose closing marker each prompt renders itself.
    `scaffolds` lists the modules (paths) that are also encoded together.
    """

    name: str
    root: ModuleNode
    markers: tuple[Markers, ...] = ()
    open_turn: bool = False
    scaffolds: tuple[tuple[str, ...], ...] = ()
    notes: tuple[Note, ...] = ()

    def segments(self) -> Iterator[SegmentNode]:
        """All segments, in document order of their owners."""
        for module in self.root.walk():
            yield from module.segments()
