"""Reads the statements of a schema function into its body. Nothing is run, and nothing is rewritten."""

from __future__ import annotations

import ast
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from promptcache.errors import SchemaError
from promptcache.pml.names import suggest
from promptcache.pml.python.arguments import Argument
from promptcache.pml.python.body import Branch, Call, Choice, Given, Passed, Speech, Statement
from promptcache.pml.python.conditions import read_condition, read_pattern, read_subject
from promptcache.pml.python.locate import Located
from promptcache.pml.python.members import name_of, name_of_rest
from promptcache.pml.python.text import read_line
from promptcache.pml.python.turns import TurnMark
from promptcache.source import Span

_KINDS: dict[type[ast.stmt | ast.expr], str] = {
    ast.For: "a `for` loop",
    ast.AsyncFor: "an `async for` loop",
    ast.While: "a `while` loop",
    ast.Assign: "an assignment",
    ast.AugAssign: "an assignment",
    ast.AnnAssign: "an assignment",
    ast.NamedExpr: "an assignment",
    ast.Return: "`return`",
    ast.Try: "`try`",
    ast.TryStar: "`try`",
    ast.FunctionDef: "a nested function",
    ast.AsyncFunctionDef: "a nested function",
    ast.ClassDef: "a nested class",
    ast.Lambda: "a lambda",
    ast.Import: "an import",
    ast.ImportFrom: "an import",
    ast.Yield: "`yield`",
    ast.YieldFrom: "`yield from`",
    ast.Await: "`await`",
    ast.AsyncWith: "`async with`",
}


@dataclass(frozen=True)
class Compiler:
    """One function's arguments, its source, and how the names it uses are looked up (None: there is none such)."""

    arguments: Mapping[str, Argument]
    located: Located
    lookup: Callable[[str], object | None]

    def body(self, statements: list[ast.stmt]) -> tuple[Statement, ...]:
        """The statements in order. Raises SchemaError for the first that a schema cannot hold."""
        return tuple(found for statement in statements if (found := self._statement(statement)) is not None)

    def _statement(self, node: ast.stmt) -> Statement | None:
        match node:
            case ast.Pass() | ast.Expr(value=ast.Constant(value=types.EllipsisType())):
                return None
            case ast.Expr(value=ast.Constant(value=str()) | ast.JoinedStr() as value):
                return read_line(value, self.arguments, self.located)
            case ast.Expr(value=ast.Call() as call):
                return self._call(call)
            case ast.If():
                return self._if(node)
            case ast.Match():
                return self._match(node)
            case ast.With():
                return self._with(node)
            case ast.Expr(value=value):
                raise self._refused(value)
        raise self._refused(node)

    def _if(self, node: ast.If) -> Branch | Choice:
        span = self._span(node)
        branches = [self._branch(node)]
        while len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If) and _is_elif(node, node.orelse[0]):
            node = node.orelse[0]
            branches.append(self._branch(node))
        if node.orelse:
            assert branches[0].condition is not None
            name = name_of_rest(branches[0].condition.argument)
            branches.append(Branch(name, None, self.body(node.orelse), self._span(node.orelse[0])))
        return branches[0] if len(branches) == 1 else Choice(tuple(branches), span)

    def _branch(self, node: ast.If) -> Branch:
        condition = read_condition(node.test, self.arguments, self.located)
        return Branch(name_of(condition), condition, self.body(node.body), self._span(node))

    def _match(self, node: ast.Match) -> Choice:
        subject = read_subject(node.subject, self.arguments, self.located)
        branches = []
        for case in node.cases:
            if case.guard is not None:
                raise self._refused(case.guard, "a guard")
            condition = read_pattern(case.pattern, subject, self.located)
            name = name_of_rest(subject) if condition is None else name_of(condition)
            branches.append(Branch(name, condition, self.body(case.body), self._span(case.pattern)))
        return Choice(tuple(branches), self._span(node))

    def _with(self, node: ast.With) -> Speech:
        match node.items:
            case [ast.withitem(context_expr=ast.Call(func=target, args=[], keywords=[]), optional_vars=None)]:
                mark = self.lookup(ast.unparse(target))
                if isinstance(mark, TurnMark):
                    return Speech(mark.role, self.body(node.body), self._span(node))
        raise SchemaError(
            f"`with {', '.join(ast.unparse(item) for item in node.items)}` is no turn",
            hint="write `with system():`, `with user():` or `with assistant():`, imported from promptcache",
            span=self._span(node),
        )

    def _call(self, node: ast.Call) -> Call:
        values = [self._given(None, value) for value in node.args]
        for keyword in node.keywords:
            if keyword.arg is None:
                raise self._refused(keyword.value, "a `**` argument")
            values.append(self._given(keyword.arg, keyword.value))
        target = node.func
        while isinstance(target, ast.Attribute):
            target = target.value
        if not isinstance(target, ast.Name):
            raise self._refused(node.func, "a call of an expression")
        return Call(ast.unparse(node.func), tuple(values), self._span(node))

    def _given(self, keyword: str | None, node: ast.expr) -> Given:
        match node:
            case ast.Constant(value=str() | int() | None as value):
                return Given(keyword, value, self._span(node))
            case ast.Name(id=name) if name in self.arguments:
                return Given(keyword, Passed(name), self._span(node))
            case ast.Name(id=name):
                hint = suggest(name, self.arguments)
                raise SchemaError(f"`{name}` is not an argument of the function", hint=hint, span=self._span(node))
        raise self._refused(node, "a `*` argument" if isinstance(node, ast.Starred) else "a computed value")

    def _refused(self, node: ast.AST, what: str | None = None) -> SchemaError:
        what = what or next((name for kind, name in _KINDS.items() if isinstance(node, kind)), None)
        return SchemaError(
            f"{what or f'`{ast.unparse(node)}`'} has no meaning in a schema",
            hint="it holds strings, f-strings, `if`, `match`, `with system():` and calls of other schema functions",
            span=self._span(node),
        )

    def _span(self, node: ast.AST) -> Span:
        return self.located.span(node)


def _is_elif(outer: ast.If, inner: ast.If) -> bool:
    """`elif` and `else:` with an `if` in it give the same tree; only the second is indented further."""
    return inner.col_offset == outer.col_offset
