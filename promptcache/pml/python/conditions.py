"""Conditions of `if`, and patterns of `match`, as conditions over one argument."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from promptcache.errors import SchemaError
from promptcache.pml.names import suggest
from promptcache.pml.python.arguments import Argument
from promptcache.pml.python.body import Condition, Constant
from promptcache.pml.python.locate import Located


def read_condition(node: ast.expr, arguments: Mapping[str, Argument], located: Located) -> Condition:
    """`flag`, or `argument == constant`. Raises SchemaError for any other expression."""
    span = located.span(node)
    match node:
        case ast.Name(id=name):
            return Condition(_known(name, node, arguments, located), None, span)
        case ast.Compare(left=ast.Name(id=name), ops=[ast.Eq()], comparators=[value]):
            return Condition(_known(name, node.left, arguments, located), (_constant(value, located),), span)
    raise SchemaError(
        f"`{ast.unparse(node)}` is no condition that a schema can hold",
        hint="a condition is one argument (`if miami:`), or one compared to a constant (`if by == 'train':`)",
        span=span,
    )


def read_subject(node: ast.expr, arguments: Mapping[str, Argument], located: Located) -> str:
    """The argument that a `match` asks about."""
    if isinstance(node, ast.Name):
        return _known(node.id, node, arguments, located)
    raise SchemaError(
        f"`match` asks about `{ast.unparse(node)}`, and a schema can only ask about one argument",
        hint="write `match by:` with an argument `by` of the function",
        span=located.span(node),
    )


def read_pattern(node: ast.pattern, subject: str, located: Located) -> Condition | None:
    """A pattern of constants, or None for `case _`."""
    if isinstance(node, ast.MatchAs) and node.pattern is None and node.name is None:
        return None
    alternatives = node.patterns if isinstance(node, ast.MatchOr) else [node]
    values: list[Constant] = []
    for alternative in alternatives:
        match alternative:
            case ast.MatchValue(value=value):
                values.append(_constant(value, located))
            case ast.MatchSingleton(value=singleton):
                values.append(singleton)
            case _:
                raise SchemaError(
                    f"`case {ast.unparse(alternative)}` is no pattern that a schema can hold",
                    hint="a case is a constant, constants joined by `|`, or `_`",
                    span=located.span(alternative),
                )
    return Condition(subject, tuple(values), located.span(node))


def _known(name: str, node: ast.expr, arguments: Mapping[str, Argument], located: Located) -> str:
    if name in arguments:
        if arguments[name].bound is None:
            return name
        raise SchemaError(
            f"`{name}` is text bounded by MaxTokens, so it cannot decide what is imported",
            hint="add another argument for the decision",
            span=located.span(node),
        )
    raise SchemaError(
        f"`{name}` is not an argument of the function", hint=suggest(name, arguments), span=located.span(node)
    )


def _constant(node: ast.expr, located: Located) -> Constant:
    if isinstance(node, ast.Constant) and isinstance(node.value, str | int | None):
        return node.value
    raise SchemaError(
        f"`{ast.unparse(node)}` is not a constant that names a member",
        hint="compare with a string such as 'train', a whole number, True, False or None",
        span=located.span(node),
    )
