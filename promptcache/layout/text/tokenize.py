"""A schema's text to token ids: segments cut where a prompt can take one part without the other."""

from __future__ import annotations

from promptcache.errors import SchemaError
from promptcache.layout.text.pieces import encode, join, trailing_special
from promptcache.layout.text.schema_turns import SchemaTurn, schema_turns, trimmed
from promptcache.layout.text.tokenizer import Piece, Tokenizer
from promptcache.layout.text.tree import Item, ModuleNode, ParameterNode, SchemaTree, SegmentNode, UnionNode
from promptcache.pml import Module, Node, Note, Parameter, Schema, Text, Turn, Union
from promptcache.source import Span


def tokenize(schema: Schema, tokenizer: Tokenizer) -> SchemaTree:
    """The schema as token ids.

    Raises SchemaError where a parameter's default is longer than the parameter, or turns find no template.
    """
    turns = schema_turns(schema, tokenizer)
    last = schema.children[-1] if schema.children else None
    open_turn = isinstance(last, Turn) and last.role == "user"
    walk = _Walk(tokenizer, turns, last if open_turn else None)
    root = walk.root(schema)
    return SchemaTree(
        name=schema.name,
        root=root,
        markers=tuple(turn.markers for turn in turns),
        open_turn=open_turn,
        scaffolds=tuple(scaffold.modules for scaffold in schema.scaffolds),
        notes=tuple(walk.notes),
    )


Place = tuple[int | None, bool]
"""What a text follows: the special token directly before it, and whether it opens the prompt (`Tokenizer.encode`)."""


class _Walk:
    """One pass over a schema in document order. A text is taken to follow all that stands before it in the schema."""

    def __init__(self, tokenizer: Tokenizer, turns: tuple[SchemaTurn, ...], open_turn: Node | None) -> None:
        self.tokenizer = tokenizer
        self.turns = iter(turns)
        self.open_turn = open_turn
        self.segments = 0
        self.place: Place = (None, True)
        self.behind_bos = False  # the next text opens with a marker that the template writes behind a BOS of its own
        self.notes: list[Note] = []

    def root(self, schema: Schema) -> ModuleNode:
        owner = _Owner(self, "", self.place)
        if self.tokenizer.bos_id is not None:
            owner.add(self.tokenizer.bos_id, None)
        return owner.node(schema.children, cache=True, span=schema.span)

    def segment(self, pieces: tuple[Piece, ...], span: Span | None) -> SegmentNode | None:
        before, start = self.place
        ids = encode(self.tokenizer, pieces, before=before, start=start)
        if not ids:
            return None
        node = SegmentNode(self.segments, ids, pieces, before, start, self.behind_bos, span)
        if pieces != (self.tokenizer.bos_id,):
            start = self.behind_bos = False
        self.place = (trailing_special(pieces), start)
        self.segments += 1
        return node

    def parameter(self, node: Parameter) -> ParameterNode:
        before, start = self.place

        def ids(text: str) -> tuple[int, ...]:
            return encode(self.tokenizer, join([" " * node.space + text]), before=before, start=start)

        if node.default and len(ids(node.default)) > node.length:
            raise SchemaError(
                f"the default of parameter {node.name!r} takes {len(ids(node.default))} tokens, "
                f"and its length allows {node.length}",
                hint=f"shorten the default or set length to {len(ids(node.default))}",
                span=node.span,
            )
        scaffold = ids(node.scaffold) if node.scaffold else ()
        if len(scaffold) > node.length:
            self.notes.append(
                Note(
                    f"the scaffold of parameter {node.name!r} takes {len(scaffold)} tokens and is cut to {node.length}",
                    node.span,
                )
            )
        padding = (self.tokenizer.placeholder_id,) * (node.length - len(scaffold))
        self.place = (None, False)
        return ParameterNode(
            node.name, node.length, (scaffold + padding)[: node.length], node.space, before, start, node.span
        )

    def union(self, node: Union, path: str, always: Place) -> UnionNode:
        place = self.place
        members = []
        ends = set()
        for member in node.modules():
            self.place = place
            members.append(self.nested(member, path, always))
            if members[-1].length:
                ends.add(self.place)
        self.place = place if not ends else ends.pop() if len(ends) == 1 else (None, False)
        return UnionNode(tuple(members), node.scaffold, node.span)

    def nested(self, node: Module, path: str, always: Place) -> ModuleNode:
        inner = f"{path}/{node.name}" if path else node.name
        return _Owner(self, inner, always).node(node.children, cache=node.cache, span=node.span)


class _Owner:
    """The items of one module, collected while its children are walked.

    `always` is the place behind what stands before in every prompt that has this module.
    """

    def __init__(self, walk: _Walk, path: str, always: Place) -> None:
        self.state = walk
        self.path = path
        self.always = always
        self.items: list[Item] = []
        self.pieces: list[Piece] = []
        self.span: Span | None = None

    def node(self, children: tuple[Node, ...], *, cache: bool, span: Span | None) -> ModuleNode:
        self.walk(children)
        self.flush()
        return ModuleNode(self.path, tuple(self.items), cache, span)

    def add(self, piece: Piece, span: Span | None) -> None:
        self.span = self.span or span
        self.pieces.append(piece)

    def flush(self) -> None:
        if segment := self.state.segment(join(self.pieces), self.span):
            self.items.append(segment)
            self.always = self.state.place
        self.pieces, self.span = [], None

    def walk(self, nodes: tuple[Node, ...]) -> None:
        for node in nodes:
            if isinstance(node, Text):
                self.add(node.text, node.span)
            elif isinstance(node, Turn):
                self.turn(node)
            else:
                self.flush()
                if isinstance(node, Parameter):
                    self.items.append(self.state.parameter(node))
                    self.always = self.state.place
                elif isinstance(node, Union):
                    self.items.append(self.state.union(node, self.path, self.always))
                else:
                    self.items.append(self.state.nested(node, self.path, self.always))

    def turn(self, node: Turn) -> None:
        laid = next(self.state.turns)
        if not self.pieces:
            # Its markers are those that it gets without the modules before it, and so are their tokens.
            self.state.place = self.always
        if laid.behind_bos and not any(isinstance(piece, str) for piece in self.pieces):
            # The template wrote the BOS itself, so what it writes behind it is not the prompt's start.
            self.state.place, self.state.behind_bos = (self.state.place[0], False), True
        for piece in self.state.tokenizer.split(laid.markers.open):
            self.add(piece, node.span)
        self.walk(trimmed(node.children, laid.markers.trim))
        if node is not self.state.open_turn:
            for piece in self.state.tokenizer.split(laid.markers.close):
                self.add(piece, node.span)
