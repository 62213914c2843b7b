"""Where text that is tokenized apart would give other ids if it were tokenized together."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from promptcache.layout.layout import SchemaLayout
from promptcache.layout.text.placed import PlacedText
from promptcache.layout.text.tokenizer import Tokenizer
from promptcache.layout.text.tree import Item, ModuleNode, ParameterNode, SegmentNode
from promptcache.pml import Note, Parameter
from promptcache.pml.scope import parameters
from promptcache.source import Span

WINDOW = 40
"""Characters on each side of a border that are tokenized together. What stands further away does not change what
happens at the border, and a long module would be tokenized once for each neighbour that it may have."""

_SHOWN = 12


def border_notes(layout: SchemaLayout, tokenizer: Tokenizer) -> tuple[Note, ...]:
    """A warning for each text of a schema that some prompt puts behind a text with which the tokenizer would join it,
    or at a place where the tokenizer's dummy space is missing or too many.

    Modules, members and arguments may be absent, so a text meets all that can stand before it; it is warned of once.
    Of arguments a schema knows the defaults, and the scaffolds as examples.
    """
    found = _Search(layout, tokenizer)
    ends = found.module(layout.tree.root, {_OPENING: None})
    if layout.tree.open_turn:
        closing = tokenizer.split(layout.tree.markers[-1].close)
        if closing and isinstance(closing[0], str):
            text = PlacedText(0, closing[:1], None, False, False, layout.schema.children[-1].span)
            found.meet(ends, _head(text, tokenizer))
    return tuple(found.notes)


def prompt_border_notes(texts: Sequence[PlacedText], tokenizer: Tokenizer) -> tuple[Note, ...]:
    """The same for the texts of one prompt (`LayoutPolicy.texts`), those of its schema included."""
    ends = [_OPENING, *(_end(text, tokenizer) for text in texts)]
    notes = (_note(end, _head(text, tokenizer), tokenizer) for end, text in zip(ends, texts, strict=False))
    return tuple(note for note in notes if note)


@dataclass(frozen=True)
class _End:
    """The end of a run of text before a border, with what it follows as in `Tokenizer.encode`, and its ids; or no text,
    only what would be followed."""

    text: str
    before: int | None
    start: bool
    ids: tuple[int, ...] = ()


_OPENING = _End("", None, start=True)

_Ends = dict[_End, None]
"""All that can stand before a border: a set that keeps its order."""


@dataclass(frozen=True)
class _Head:
    """The beginning of the run of text behind a border, and its ids behind what it was taken to follow."""

    text: str
    ids: tuple[int, ...]
    behind_bos: bool
    span: Span | None


class _Search:
    """One walk over a schema's layout. What follows a part is told which ends can stand before it."""

    def __init__(self, layout: SchemaLayout, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.notes: list[Note] = []
        self.parameters = {
            (path, node.name): node for path, module in layout.schema.walk_modules() for node in parameters(module)
        }

    def module(self, module: ModuleNode, ends: _Ends) -> _Ends:
        """What can stand behind a module that is there."""
        for item in module.items:
            ends = self.item(module.path, item, ends)
        return ends

    def item(self, path: str, item: Item, ends: _Ends) -> _Ends:
        if isinstance(item, SegmentNode):
            self.meet(ends, _head(item, self.tokenizer))
            return {_end(item, self.tokenizer): None}
        if isinstance(item, ParameterNode):
            return self.parameter(self.parameters[path, item.name], item, ends)
        behind = dict(ends)
        for member in (item,) if isinstance(item, ModuleNode) else item.members:
            behind |= self.module(member, ends)
        return behind

    def parameter(self, parameter: Parameter, node: ParameterNode, ends: _Ends) -> _Ends:
        behind = {} if parameter.default else dict(ends)
        for text in (parameter.default, parameter.scaffold):
            if text:
                argument = PlacedText(0, (" " * node.space + text,), node.before, node.start, False, node.span)
                self.meet(ends, _head(argument, self.tokenizer))
                behind[_end(argument, self.tokenizer)] = None
        return behind

    def meet(self, ends: _Ends, head: _Head | None) -> None:
        notes = (_note(end, head, self.tokenizer) for end in ends)
        if note := next(filter(None, notes), None):
            self.notes.append(note)


def _end(part: SegmentNode | PlacedText, tokenizer: Tokenizer) -> _End:
    *others, last = part.pieces
    start = part.start and all(piece == tokenizer.bos_id for piece in others)
    if isinstance(last, int):
        return _End("", last, start and last == tokenizer.bos_id)
    before = others[-1] if others else part.before
    assert not isinstance(before, str), "neighbouring runs of text are joined"
    if len(last) > WINDOW:
        last, before, start = last[-WINDOW:], None, False
    return _End(last, before, start, tokenizer.encode(last, behind=before, start=start))


def _head(part: SegmentNode | PlacedText, tokenizer: Tokenizer) -> _Head | None:
    first = part.pieces[0]
    if isinstance(first, int):
        return None
    text = first[:WINDOW]
    return _Head(text, tokenizer.encode(text, behind=part.before, start=part.start), part.behind_bos, part.span)


def _note(end: _End, head: _Head | None, tokenizer: Tokenizer) -> Note | None:
    if head is None:
        return None
    start = end.start and not (head.behind_bos and not end.text)
    if tokenizer.encode(end.text + head.text, behind=end.before, start=start) == end.ids + head.ids:
        return None
    right = _quoted(head.text[:_SHOWN], behind="..." if len(head.text) > _SHOWN else "")
    if not end.text:
        message = (
            f"{right} may open the prompt or stand behind a special token, where this tokenizer spells it otherwise. "
            "Put text that is always there before it"
        )
    else:
        left = _quoted(end.text[-_SHOWN:], before="..." if len(end.text) > _SHOWN else "")
        message = (
            f"{left} | {right}: this tokenizer would spell both together otherwise than it spells them apart. "
            "Move the border to where a word or a line begins"
        )
    return Note(message, head.span)


def _quoted(text: str, before: str = "", behind: str = "") -> str:
    """On one line, with visible line breaks."""
    return json.dumps(before + text + behind, ensure_ascii=False)
