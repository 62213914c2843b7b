"""The rules that a schema's nodes obey, whoever made them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from promptcache.errors import SchemaError
from promptcache.pml.document import MAX_DEPTH
from promptcache.pml.faults import Faults
from promptcache.pml.names import ROLES, name_fault, shorten, suggest
from promptcache.pml.nodes import Module, Node, Parameter, Scaffold, Text, Turn, Union
from promptcache.pml.scaffolds import check_scaffolds
from promptcache.pml.scope import importable, parameters
from promptcache.source import Span

_SURROGATE = re.compile("[\ud800-\udfff]")


def check_schema(
    name: str, children: Sequence[Node], scaffolds: Sequence[Scaffold], span: Span | None, faults: Faults
) -> None:
    """Adds every rule that is broken to `faults`."""
    if too_deep(children):
        faults.add(SchemaError(f"elements nest deeper than {MAX_DEPTH}", hint="nest fewer modules", span=span))
        return
    checker = _Checker(faults)
    checker.name("schema", name, span, reserved=False)
    checker.nodes(children, module=None, turn=None)
    checker.scope(children, "the schema")
    check_scaffolds(children, scaffolds, faults)


def too_deep(children: Sequence[Node]) -> bool:
    """Whether nodes nest deeper than a document may; finds out without recursion."""
    level = list(children)
    for _ in range(MAX_DEPTH):
        below: list[Node] = []
        for node in level:
            if isinstance(node, Module | Turn):
                below += node.children
            elif isinstance(node, Union):
                below += node.members
        level = [node for node in below if not isinstance(node, Text)]
    return bool(level)


class _Checker:
    def __init__(self, faults: Faults) -> None:
        self.faults = faults

    def fault(self, message: str, hint: str | None, span: Span | None) -> None:
        self.faults.add(SchemaError(message, hint=hint, span=span))

    def name(self, what: str, name: str, span: Span | None, *, reserved: bool = True) -> None:
        if fault := name_fault(name, reserved=reserved):
            self.fault(f"{what}: {fault[0]}", fault[1], span)

    def nodes(self, nodes: Iterable[Node], *, module: Module | None, turn: Turn | None) -> None:
        for node in nodes:
            if isinstance(node, Text):
                self.text("a text", node.text, node.span)
            elif isinstance(node, Parameter):
                self.parameter(node, module)
            elif isinstance(node, Module):
                self.module(node, turn)
            elif isinstance(node, Turn):
                self.turn(node, module, turn)
            else:
                self.union(node)
                self.nodes(node.members, module=module, turn=turn)

    def module(self, node: Module, turn: Turn | None) -> None:
        self.name("module", node.name, node.span)
        self.scope(node.children, f'module "{shorten(node.name)}"')
        seen: set[str] = set()
        for parameter in parameters(node):
            if parameter.name in seen:
                self.fault(f'module "{node.name}" has two parameters "{parameter.name}"', "rename one", parameter.span)
            seen.add(parameter.name)
        self.nodes(node.children, module=node, turn=turn)

    def parameter(self, node: Parameter, module: Module | None) -> None:
        self.name("parameter", node.name, node.span)
        if module is None:
            self.fault(f'parameter "{node.name}" stands outside of a module', "put it into a module", node.span)
        if node.length < 1:
            self.fault(f'parameter "{node.name}" has the length {node.length}', "it is at least 1", node.span)
        for text in (node.scaffold, node.default):
            self.text(f'parameter "{node.name}"', text or "", node.span)

    def turn(self, node: Turn, module: Module | None, turn: Turn | None) -> None:
        if node.role not in ROLES:
            self.fault(f'"{shorten(str(node.role))}" is not a role', suggest(str(node.role), ROLES), node.span)
        if turn:
            self.fault(f"<{node.role}> stands inside <{turn.role}>", "close one turn before the next", node.span)
        self.nodes(node.children, module=module, turn=node)

    def union(self, node: Union) -> None:
        names = [module.name for module in node.modules()]
        if not names:
            self.fault("a union without modules", "put modules into it, or take it out", node.span)
        elif node.scaffold is not None and node.scaffold not in names:
            hint = suggest(node.scaffold, names, what="its members")
            self.fault(f'the union has no member "{shorten(node.scaffold)}"', hint, node.span)

    def scope(self, nodes: Iterable[Node], where: str) -> None:
        seen: dict[str, Module] = {}
        for module, _ in importable(nodes):
            first = seen.setdefault(module.name, module)
            if first is not module:
                place = f" (the first is in line {first.span.line})" if first.span else ""
                self.fault(
                    f'{where} has two modules "{shorten(module.name)}"{place}',
                    "rename one: unions and role tags do not keep names apart",
                    module.span,
                )

    def text(self, what: str, text: str, span: Span | None) -> None:
        if _SURROGATE.search(text):
            self.fault(f"{what} holds half of a surrogate pair", "decode the text anew, or take it out", span)
