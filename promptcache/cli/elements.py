"""A laid-out schema as a plain tree, for people and for JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from promptcache.layout.layout import SchemaLayout
from promptcache.layout.text.tree import Item, ModuleNode, ParameterNode, SegmentNode

_SHOWN = 40


@dataclass(frozen=True)
class Element:
    """An element of a schema at the positions `[start, end)`.

    `name` is a module's path, a parameter's name, or the beginning of a text. `num_tokens` and `num_bytes` count what
    is stored of it and in it; the members of a union share positions, so their tokens may be more than its length.
    """

    kind: Literal["schema", "module", "union", "text", "parameter"]
    name: str
    start: int
    length: int
    end: int
    num_tokens: int
    num_bytes: int
    note: str = ""
    children: tuple[Element, ...] = ()


def elements_of(layout: SchemaLayout, bytes_per_token: int) -> Element:
    """The schema's own element, with all others inside it."""
    return _Reader(layout, bytes_per_token).module(layout.tree.root, "schema")


class _Reader:
    def __init__(self, layout: SchemaLayout, bytes_per_token: int) -> None:
        self.layout = layout
        self.bytes_per_token = bytes_per_token

    def module(self, module: ModuleNode, kind: Literal["schema", "module"] = "module") -> Element:
        children = tuple(self.item(module, item) for item in module.items)
        name = module.path or self.layout.name
        note = "" if module.cache else "fresh in every prompt"
        return self.element(kind, name, self.layout.starts[module.path], module.length, children, note)

    def item(self, module: ModuleNode, item: Item) -> Element:
        if isinstance(item, ModuleNode):
            return self.module(item)
        if isinstance(item, SegmentNode):
            return self.segment(item)
        if isinstance(item, ParameterNode):
            start = self.layout.parameters[module.path, item.name]
            return Element("parameter", item.name, start, item.length, start + item.length, 0, 0)
        members = tuple(self.module(member) for member in item.members)
        start = min((member.start for member in members), default=0)
        return self.element("union", "", start, item.length, members, f"one of {len(members)}")

    def segment(self, segment: SegmentNode) -> Element:
        stored = self.layout.segments.get(segment.index)
        start = self.layout.segment_starts[segment.index]
        tokens = segment.length if stored else 0
        text = " ".join("".join(piece for piece in segment.pieces if isinstance(piece, str)).split())
        shown = text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
        end = start + segment.length
        return Element("text", f'"{shown}"', start, segment.length, end, tokens, tokens * self.bytes_per_token)

    def element(
        self,
        kind: Literal["schema", "module", "union"],
        name: str,
        start: int,
        length: int,
        children: tuple[Element, ...],
        note: str,
    ) -> Element:
        tokens = sum(child.num_tokens for child in children)
        return Element(kind, name, start, length, start + length, tokens, tokens * self.bytes_per_token, note, children)
