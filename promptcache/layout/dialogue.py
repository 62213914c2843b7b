"""The turns of a prompt together with those of its schema, and the text that closes the prompt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from promptcache.errors import TurnError
from promptcache.layout.conversation import Rendering, fresh_part, render
from promptcache.layout.pieces import join, without_bos
from promptcache.layout.tokenizer import Piece, Tokenizer
from promptcache.layout.tree import SchemaTree
from promptcache.pml import BoundImport, BoundPrompt, Module, NewText, Node, Parameter, Text, Turn, Union
from promptcache.source import Span


@dataclass(frozen=True)
class Tail:
    """What stands behind all else: the text behind the last import, markers rendered for this prompt, its turns, and
    the opening of the reply.

    `behind_bos`: it opens with a marker that the template writes behind a BOS of its own. That BOS is not in `pieces`.
    """

    pieces: tuple[Piece, ...]
    behind_bos: bool = False


Between = tuple[NewText, BoundImport | None, BoundImport]
"""New text and the imports on both sides (None at the start)."""


def tail_of(prompt: BoundPrompt, tree: SchemaTree | None, tokenizer: Tokenizer) -> tuple[Tail, tuple[Between, ...]]:
    """The tail of a prompt, and its new texts that stand before imports.

    Raises TurnError where the whole conversation does not render, or renders a stored turn otherwise than laid out.
    """
    between, last_text = _split_texts(prompt)
    turns = [*_present(prompt), *(_Turn(None, turn.role, turn.text, turn.span) for turn in prompt.turns)]
    stored = sum(turn.index is not None for turn in turns)
    if not turns:
        return Tail(join([last_text])), between
    open_turn = tree is not None and tree.open_turn
    if open_turn:
        last = turns[stored - 1]
        turns[stored - 1] = _Turn(last.index, last.role, last.content + last_text, last.span)
    rendering = _render(turns, tokenizer, prompt.span)
    markers = tree.markers if tree else ()
    pieces: list[Piece] = []
    behind_bos = False
    for number, (turn, content) in enumerate(zip(turns[:stored], rendering.contents, strict=False)):
        continues = open_turn and number == stored - 1
        kept = _new_part(turn, last_text if continues else "", content)
        pieces += [kept] if continues else []
    if not open_turn:
        pieces.append(last_text)
    for number, gap in enumerate(rendering.gaps):
        left = turns[number - 1].index if number else None
        right = turns[number].index if number < len(turns) else None
        if left is not None and open_turn and number == stored:
            left = None
        fresh = fresh_part(
            gap,
            close=None if left is None else markers[left].close,
            open=None if right is None else markers[right].open,
            turn=f"turn {min(number, len(turns) - 1) + 1} (<{turns[min(number, len(turns) - 1)].role}>)",
        )
        written = tokenizer.split(fresh)
        if number == 0 and (rest := without_bos(written, tokenizer.bos_id)) != written:
            written, behind_bos = rest, not join(pieces)
        pieces += written
        if number < len(turns) and turns[number].index is None:
            pieces.append(rendering.contents[number])
    return Tail(join(pieces), behind_bos), between


@dataclass(frozen=True)
class _Turn:
    """A turn of the conversation: number `index` of the schema's turns, or the prompt's own (None)."""

    index: int | None
    role: str
    content: str
    span: Span | None


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


def _new_part(turn: _Turn, text: str, written: str) -> str:
    """What of `text` (the new end of a stored turn) the template writes; `written` is the turn's content as it does.

    A template may drop white space at a turn's edges. Where that white space is stored, it cannot: TurnError.
    """
    stored = turn.content[: len(turn.content) - len(text)]
    start = turn.content.find(written) if written else len(turn.content)
    end = start + len(written)
    if stored and (start > 0 or end < len(stored)):
        raise TurnError(
            f"the model's template drops white space at the edge of a <{turn.role}> turn, "
            "and here that white space belongs to stored text",
            hint="take it out of the module (Schema.from_modules: separator=''), or put new text behind it",
            span=turn.span,
        )
    return turn.content[max(start, len(stored)) : end]


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


def _present(prompt: BoundPrompt) -> list[_Turn]:
    """The schema's turns that this prompt has, in document order, with their contents."""
    if prompt.schema is None:
        return []
    walk = _Walk()
    imports = {item.path: item for item in prompt.items if isinstance(item, BoundImport)}
    walk.nodes(prompt.schema.children, imports, {}, "")
    return walk.turns


class _Walk:
    """Collects turns and their contents; `count` numbers all turns, those of modules not imported as well."""

    def __init__(self) -> None:
        self.turns: list[_Turn] = []
        self.count = 0
        self.content: list[str] | None = None

    def nodes(
        self, nodes: tuple[Node, ...], imports: Mapping[str, BoundImport], arguments: Mapping[str, str], path: str
    ) -> None:
        for node in nodes:
            if isinstance(node, Text):
                self.text(node.text)
            elif isinstance(node, Parameter):
                if value := arguments.get(node.name):
                    self.text(" " * node.space + value)
            elif isinstance(node, Turn):
                self.turn(node, imports, arguments, path)
            else:
                for module in (node,) if isinstance(node, Module) else node.modules():
                    self.module(module, imports, path)

    def text(self, text: str) -> None:
        if self.content is not None:
            self.content.append(text)

    def turn(self, node: Turn, imports: Mapping[str, BoundImport], arguments: Mapping[str, str], path: str) -> None:
        index, self.count = self.count, self.count + 1
        self.content = []
        self.nodes(node.children, imports, arguments, path)
        self.turns.append(_Turn(index, node.role, "".join(self.content or ()), node.span))
        self.content = None

    def module(self, module: Module, imports: Mapping[str, BoundImport], path: str) -> None:
        inner = f"{path}/{module.name}" if path else module.name
        item = imports.get(inner)
        if item is None:
            self.count += sum(1 for _ in _turns_in(module.children))
        else:
            nested = {child.path: child for child in item.imports}
            self.nodes(module.children, nested, dict(item.arguments), inner)


def _turns_in(nodes: tuple[Node, ...]) -> Iterator[Turn]:
    for node in nodes:
        if isinstance(node, Turn):
            yield node
        if isinstance(node, Turn | Module):
            yield from _turns_in(node.children)
        elif isinstance(node, Union):
            for module in node.modules():
                yield from _turns_in(module.children)
