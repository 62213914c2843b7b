"""The turns of a prompt together with those of its schema, and the text that closes the prompt."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby

from promptcache.errors import TurnError
from promptcache.layout.text.conversation import Markers, Rendering, fresh_part, render
from promptcache.layout.text.import_order import ImportOrder, SchemaOrder
from promptcache.layout.text.pieces import behind_bos, join
from promptcache.layout.text.schema_turns import trimmed
from promptcache.layout.text.tokenizer import Piece, Tokenizer
from promptcache.layout.text.tree import SchemaTree
from promptcache.pml import BoundImport, BoundPrompt, Module, NewText, Node, Parameter, Text, Turn, Union
from promptcache.source import Span


@dataclass(frozen=True)
class Tail:
    """What stands behind all else: the text behind the last import, markers rendered for this prompt, its turns, and
    the opening of the reply.

    `behind_bos`: it opens with a marker that the template writes behind a BOS of its own. That BOS is not in `pieces`.
    `span`: where the first text of it stands in the prompt.
    """

    pieces: tuple[Piece, ...]
    behind_bos: bool = False
    span: Span | None = None


Between = tuple[NewText, BoundImport | None, BoundImport]
"""New text and the imports on both sides (None at the start)."""


Order = Callable[[Iterable[BoundImport]], ImportOrder]


def tail_of(
    prompt: BoundPrompt, tree: SchemaTree | None, tokenizer: Tokenizer, order: Order = SchemaOrder
) -> tuple[Tail, tuple[Between, ...]]:
    """The tail of a prompt, and its new texts that stand before imports. `order` says in which order imports stand.

    Raises TurnError where the whole conversation does not render, or renders a stored turn otherwise than laid out.
    """
    between, text = _split_texts(prompt)
    spans = [item.span for item in prompt.items[-1:] if isinstance(item, NewText)]
    span = next((span for span in (*spans, *(turn.span for turn in prompt.turns)) if span), prompt.span)
    present = _present(prompt, tree, order) if tree else []
    if tree and tree.open_turn:
        present[-1] = replace(present[-1], content=present[-1].content + text)
    turns = [*present, *(_Turn(turn.role, turn.text, turn.span) for turn in prompt.turns)]
    if not turns:
        return Tail(join([text]), span=span), between
    rendering = _render(turns, tokenizer, prompt.span)
    for turn, written in zip(turns, rendering.contents, strict=True):
        if turn.goes_on and written.startswith(turn.stored):
            text = written[len(turn.stored) :]
        elif turn.open is not None and written != turn.stored:
            raise _dropped(turn)
    pieces: list[Piece] = [text]
    opening = behind_bos(tokenizer, rendering.gaps[0])
    for number, gap in enumerate((opening, *rendering.gaps[1:])):
        fresh = _fresh(gap, turns, number)
        pieces += tokenizer.split(fresh)
        if number < len(turns) and turns[number].open is None:
            pieces.append(rendering.contents[number])
    dropped = opening != rendering.gaps[0] and turns[0].open is None
    return Tail(join(pieces), dropped and not text, span), between


@dataclass(frozen=True)
class _Turn:
    """A turn of the conversation.

    The schema's have the marker that opens them, the marker that closes them and the beginning of their content
    `stored`. The last of them may go on in the prompt: its closing marker is then not stored.
    """

    role: str
    content: str
    span: Span | None
    open: str | None = None
    close: str | None = None
    stored: str = ""

    @property
    def goes_on(self) -> bool:
        return self.open is not None and self.close is None


def _fresh(gap: str, turns: list[_Turn], number: int) -> str:
    """What is not stored of the gap before turn `number`, or behind the last."""
    left = turns[number - 1] if number else None
    right = turns[number] if number < len(turns) else None
    # Nothing new can come to stand before the first turn when that is stored.
    close = left.close if left else None if right is None or right.open is None else ""
    named = min(number, len(turns) - 1)
    return fresh_part(
        gap,
        close=close,
        open=right.open if right else None,
        turn=f"turn {named + 1} (<{turns[named].role}>)",
        span=turns[named].span,
    )


def _split_texts(prompt: BoundPrompt) -> tuple[tuple[Between, ...], str]:
    between: list[Between] = []
    waiting: list[NewText] = []
    left: BoundImport | None = None
    for item in prompt.items:
        if isinstance(item, NewText):
            waiting.append(item)
        else:
            between += ((text, left, item) for text in waiting)
            waiting, left = [], item
    return tuple(between), "".join(text.text for text in waiting)


def _dropped(turn: _Turn) -> TurnError:
    return TurnError(
        f"the model's template drops white space at the edge of a <{turn.role}> turn, "
        "and here that white space belongs to a module or an argument",
        hint="take it out of the module (Schema.from_modules: separator=''), or put new text behind it",
        span=turn.span,
    )


def _render(turns: list[_Turn], tokenizer: Tokenizer, span: Span | None) -> Rendering:
    if not tokenizer.has_template:
        raise TurnError(
            f"<{turns[0].role}> needs a chat template, and this model's tokenizer has none",
            hint="write the prompt as plain text, or use a chat model",
            span=turns[0].span or span,
        )
    conversation = [(turn.role, turn.content) for turn in turns]
    spans = [turn.span or span for turn in turns]
    try:
        return render(tokenizer, conversation, open_assistant=turns[-1].role == "user", spans=spans)
    except TurnError as error:
        raise TurnError(error.message, hint=error.hint, span=error.span or span) from None


def _present(prompt: BoundPrompt, tree: SchemaTree, order: Order) -> list[_Turn]:
    """The schema's turns that this prompt has, in the order in which they stand, with their contents."""
    assert prompt.schema is not None
    walk = _Walk(tree.markers, order)
    imports = order(item for item in prompt.items if isinstance(item, BoundImport))
    walk.nodes(prompt.schema.children, imports, {}, "")
    imports.end()
    if tree.open_turn:
        walk.turns[-1] = replace(walk.turns[-1], content=walk.turns[-1].content + walk.held, close=None)
    return walk.turns


class _Walk:
    """Collects turns and their contents; `count` numbers all turns, those of modules not imported as well.

    `held` is the white space that the last turn lost at its end: the template drops it where that end is the turn's.
    """

    def __init__(self, markers: tuple[Markers, ...], order: Order) -> None:
        self.markers = markers
        self.order = order
        self.turns: list[_Turn] = []
        self.count = 0
        self.held = ""
        self.content: list[str] | None = None

    def nodes(self, nodes: tuple[Node, ...], imports: ImportOrder, arguments: Mapping[str, str], path: str) -> None:
        for importable, group in groupby(nodes, key=lambda node: isinstance(node, Module | Union)):
            if importable:
                self.stretch([module for node in group for module in _modules(node)], imports, path)
                continue
            for node in group:
                if isinstance(node, Text):
                    self.text(node.text)
                elif isinstance(node, Parameter):
                    if value := arguments.get(node.name):
                        self.text(" " * node.space + value)
                elif isinstance(node, Turn):
                    self.turn(node, imports, arguments, path)

    def text(self, text: str) -> None:
        if self.content is not None:
            self.content.append(text)

    def turn(self, node: Turn, imports: ImportOrder, arguments: Mapping[str, str], path: str) -> None:
        markers, self.count = self.markers[self.count], self.count + 1
        self.content = []
        self.nodes(trimmed(node.children, markers.trim), imports, arguments, path)
        content, self.content = "".join(self.content), None
        last = node.children[-1] if node.children else None
        self.held = last.text[len(last.text.rstrip(markers.trim.right)) :] if isinstance(last, Text) else ""
        self.turns.append(_Turn(node.role, content, node.span, markers.open, markers.close, content))

    def stretch(self, modules: list[Module], imports: ImportOrder, path: str) -> None:
        """Siblings with nothing between them, in the order in which they stand."""
        first_turns: dict[str, int] = {}
        for module in modules:
            first_turns[f"{path}/{module.name}" if path else module.name] = self.count
            self.count += sum(1 for _ in _turns_in(module.children))
        behind = self.count
        for item in imports.take(list(first_turns)):
            self.count = first_turns[item.path]
            inner = self.order(item.imports)
            self.nodes(item.module.children, inner, dict(item.arguments), item.path)
            inner.end()
        self.count = behind


def _modules(node: Node) -> Iterable[Module]:
    assert isinstance(node, Module | Union)
    return (node,) if isinstance(node, Module) else node.modules()


def _turns_in(nodes: tuple[Node, ...]) -> Iterator[Turn]:
    for node in nodes:
        if isinstance(node, Turn):
            yield node
        if isinstance(node, Turn | Module):
            yield from _turns_in(node.children)
        elif isinstance(node, Union):
            for module in node.modules():
                yield from _turns_in(module.children)
