"""The schema that a function declares."""

from __future__ import annotations

from dataclasses import dataclass, field

from promptcache.errors import SchemaError
from promptcache.pml.document import MAX_DEPTH
from promptcache.pml.lint import schema_notes
from promptcache.pml.nodes import Module, Node, Parameter, Text, Turn, Union
from promptcache.pml.python.body import Branch, Call, Choice, Line, Slot, Speech, Statement
from promptcache.pml.python.link import Program
from promptcache.pml.schema import Schema
from promptcache.pml.whitespace import Kind, clean_runs, hand_over
from promptcache.source import Span


def declare(program: Program) -> Schema:
    """The schema, under PML's white-space rules for a document in which each statement is on lines of its own.

    All spans are places in Python files. Raises SchemaError for whatever no schema can be.
    """
    children = _Content(program, depth=1).of(program.body)
    return Schema(program.name, children, span=program.span, notes=schema_notes(children))


@dataclass
class _Content:
    """An element's children and the text between them, while they are gathered; `depth` counts from 1, the schema."""

    program: Program
    depth: int
    in_module: bool = False
    texts: list[str] = field(default_factory=lambda: [""])
    spans: list[Span | None] = field(default_factory=lambda: [None])
    children: list[Node] = field(default_factory=list)
    kinds: list[Kind] = field(default_factory=list)

    def of(self, body: tuple[Statement, ...]) -> tuple[Node, ...]:
        """The nodes that `body` declares."""
        if self.depth > MAX_DEPTH:
            raise SchemaError(
                f"modules nest deeper than {MAX_DEPTH}", hint="nest fewer calls and conditions", span=self.program.span
            )
        for statement in body:
            self.text("\n", statement.span)
            self.statement(statement)
        nodes: list[Node] = []
        for index, text in enumerate(clean_runs(self.texts, self.kinds)):
            if text:
                nodes.append(Text(text, self.spans[index]))
            nodes += self.children[index : index + 1]
        return hand_over(nodes)

    def text(self, text: str, span: Span) -> None:
        self.texts[-1] += text
        self.spans[-1] = self.spans[-1] or span

    def child(self, node: Node, kind: Kind) -> None:
        self.children.append(node)
        self.kinds.append(kind)
        self.texts.append("")
        self.spans.append(None)

    def statement(self, statement: Statement) -> None:
        match statement:
            case Line(texts=texts, slots=slots, span=span):
                for text, slot in zip(texts, slots, strict=False):
                    self.text(text, span)
                    self.child(self.parameter(slot), Kind.PARAMETER)
                self.text(texts[-1], span)
            case Speech(role=role, body=body, span=span):
                inner = _Content(self.program, self.depth + 1, self.in_module)
                self.child(Turn(role, inner.of(body), span), Kind.TURN)
            case Branch():
                self.child(self.branch(statement), Kind.MODULE)
            case Choice(branches=branches, span=span):
                members = tuple(self.branch(branch) for branch in branches)
                self.child(Union(members, span=span), Kind.MODULE)
            case Call():
                self.child(self.call(statement), Kind.MODULE)

    def branch(self, branch: Branch) -> Module:
        if call := self.program.only_call(branch):
            return self.call(call)
        inner = _Content(self.program, self.depth + 1, in_module=True)
        return Module(branch.name, inner.of(branch.body), span=branch.span)

    def call(self, call: Call) -> Module:
        callee = self.program.callees[call.target]
        inner = _Content(callee, self.depth + 1, in_module=True)
        return Module(callee.name, inner.of(callee.body), span=call.span)

    def parameter(self, slot: Slot) -> Parameter:
        if not self.in_module:
            raise SchemaError(
                f"`{slot.argument}` stands outside every module, so no prompt could fill it",
                hint=f"put the string under an `if`, or into a schema function that `{self.program.name}` calls",
                span=slot.span,
            )
        argument = self.program.arguments[slot.argument]
        assert argument.bound is not None and isinstance(argument.default, str | None)
        return Parameter(
            slot.argument, argument.bound.length, argument.bound.scaffold, argument.default, span=slot.span
        )
