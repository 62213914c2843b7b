"""Random schemas and prompts that obey PML's rules, for property tests.

Arguments and defaults are short enough for a tokenizer that makes at most one token of a character.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from hypothesis import strategies as st

from promptcache.pml import Module, Node, Parameter, Prompt, Role, Scaffold, Schema, Text, Turn, Union
from promptcache.pml.scope import importable, parameters

NAMES = ("a", "b", "miami", "unit.py", "_x", "long-name_2", "A", "trip", "q1", "x.y-z", "B", "c")
ROLES: tuple[Role, ...] = ("system", "user", "assistant")
_PIECES = (
    " ",
    "  ",
    "\n",
    "\n\n  ",
    "\t",
    "word",
    "two words",
    "é",
    "中文",
    "\U0001f600",
    "&",
    "<user>",
    "]]>",
    '"',
    "'",
)
_ODD = ("\r", "\r\n", "&amp;", "\x85", "\u2028", "\u00a0", "<!--", "<![CDATA[", "{%", "<|im_end|>")


@cache
def texts(min_pieces: int = 1, odd: bool = True) -> st.SearchStrategy[str]:
    """Text that XML can carry, rich in white space, markup and what others might take for a line's end."""
    pieces = st.sampled_from(_PIECES + _ODD if odd else _PIECES)
    return st.lists(pieces, min_size=min_pieces, max_size=4).map("".join)


@st.composite
def schemas(draw: st.DrawFn, *, turns: bool = True, scaffolds: bool = True, odd: bool = True) -> Schema:
    """A schema with up to three levels of modules; `turns`, `scaffolds` and `odd` texts can be left out."""
    maker = _Maker(draw, turns, odd)
    children = maker.nodes(depth=0, names=maker.names(), inside_module=False, inside_turn=False)
    schema = Schema(draw(st.sampled_from(NAMES)), children)
    if not scaffolds or draw(st.booleans()):
        return schema
    listed = draw(st.lists(_scaffold(schema), max_size=2))
    return Schema(schema.name, children, tuple(each for each in listed if each.modules))


@st.composite
def prompts(draw: st.DrawFn, schema: Schema, *, messages: bool = True) -> Prompt:
    """A prompt that binds to `schema`, each module imported once, built without XML."""
    imports: list[str] = []
    arguments: dict[str, str] = {}

    def choose(nodes: Sequence[Node], path: str) -> None:
        for module in draw(_selection(nodes)):
            inner = f"{path}{module.name}"
            imports.append(inner)
            for parameter in parameters(module):
                if draw(st.booleans()):
                    arguments[f"{inner}/{parameter.name}"] = draw(_value(parameter.length))
            choose(module.children, f"{inner}/")

    choose(schema.children, "")
    turns = draw(st.lists(st.tuples(st.sampled_from(ROLES), texts()), max_size=3)) if messages else []
    if turns:
        written = [{"role": role, "content": content} for role, content in turns]
        return Prompt(schema.name, imports, arguments, messages=written)
    return Prompt(schema.name, imports, arguments, text=draw(st.none() | texts(0)))


def _selection(nodes: Sequence[Node]) -> st.SearchStrategy[list[Module]]:
    """Some modules of a scope, at most one of each union, in any order."""

    def legal(modules: list[tuple[Module, int | None]]) -> list[Module]:
        chosen: dict[int, Module] = {}
        return [module for module, union in modules if union is None or chosen.setdefault(union, module) is module]

    scope = list(importable(nodes))
    if not scope:
        return st.just([])
    return st.lists(st.sampled_from(scope), unique_by=lambda each: each[0].name, max_size=len(scope)).map(legal)


@st.composite
def _scaffold(draw: st.DrawFn, schema: Schema) -> Scaffold:
    listed: list[str] = []

    def choose(nodes: Sequence[Node], path: str) -> None:
        for module in draw(_selection(nodes)):
            if module.cache and draw(st.booleans()):
                listed.append(f"{path}{module.name}")
            choose(module.children, f"{path}{module.name}/")

    choose(schema.children, "")
    return Scaffold(tuple(listed))


def _value(length: int) -> st.SearchStrategy[str]:
    """Text of at most `length` characters, a space before it counted."""
    return st.text(st.sampled_from("ab c.<&\n"), max_size=length - 1)


class _Maker:
    """Draws nodes whose names are free in their scope."""

    def __init__(self, draw: st.DrawFn, turns: bool, odd: bool) -> None:
        self.draw = draw
        self.turns = turns
        self.odd = odd
        self.parameters = 0

    def names(self) -> list[str]:
        first = self.draw(st.integers(0, len(NAMES) - 1))
        return [*NAMES[first:], *NAMES[:first]]

    def nodes(self, *, depth: int, names: list[str], inside_module: bool, inside_turn: bool) -> tuple[Node, ...]:
        """`names` are those left in the scope; what is taken is taken out."""
        makers: list[Callable[[], Node]] = [self.text]
        if depth < 3:
            makers += [
                lambda: self.module(depth, names, inside_turn),
                lambda: self.union(depth, names, inside_turn),
            ]
        if self.turns and not inside_turn and depth < 3:
            makers.append(lambda: self.turn(depth, names, inside_module))
        nodes: list[Node] = []
        for _ in range(self.draw(st.integers(0, 4 - depth))):
            if not names:
                break
            nodes.append(self.draw(st.sampled_from(makers))())
        if inside_module and self.draw(st.booleans()):
            place = self.draw(st.integers(0, len(nodes)))
            nodes.insert(place, self.parameter())
        return tuple(nodes)

    def text(self) -> Node:
        return Text(self.draw(texts(odd=self.odd)))

    def parameter(self) -> Parameter:
        self.parameters += 1
        name = f"p{self.parameters}"
        length = self.draw(st.integers(1, 6))
        scaffold = self.draw(st.none() | texts(0, odd=self.odd))
        default = self.draw(st.none() | _value(length))
        return Parameter(name, length, scaffold, default, space=self.draw(st.booleans()))

    def module(self, depth: int, names: list[str], inside_turn: bool) -> Module:
        name = names.pop()
        children = self.nodes(depth=depth + 1, names=self.names(), inside_module=True, inside_turn=inside_turn)
        return Module(name, children, cache=self.draw(st.integers(0, 4)) > 0)

    def union(self, depth: int, names: list[str], inside_turn: bool) -> Union:
        members: list[Module | Union] = [self.module(depth, names, inside_turn)]
        for _ in range(self.draw(st.integers(0, 2))):
            if names:
                nested = depth < 2 and self.draw(st.integers(0, 3)) == 0
                maker = self.union if nested else self.module
                members.append(maker(depth + nested, names, inside_turn))
        union = Union(tuple(members))
        scaffold = self.draw(st.none() | st.sampled_from([module.name for module in union.modules()]))
        return Union(union.members, scaffold)

    def turn(self, depth: int, names: list[str], inside_module: bool) -> Turn:
        role = self.draw(st.sampled_from(ROLES))
        children = self.nodes(depth=depth, names=names, inside_module=inside_module, inside_turn=True)
        return Turn(role, children)
