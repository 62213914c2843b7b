"""The arguments of a schema function: their bounds and defaults, read from its signature."""

from __future__ import annotations

import ast
import inspect
import re
import types
import typing
from dataclasses import dataclass

from promptcache.errors import RequestError, SchemaError
from promptcache.pml.python.locate import Located
from promptcache.source import Span

# What XML 1.0 cannot hold: every schema can be written as PML.
_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class MaxTokens:
    """Bounds a text argument: `days: Annotated[str, MaxTokens(5)]`.

    `length` is the number of tokens that the prompt reserves for it, at least 1. `scaffold` is the placeholder text
    that stands there while the schema is encoded.
    """

    length: int
    scaffold: str | None = None

    def __post_init__(self) -> None:
        if type(self.length) is not int or self.length < 1:
            raise RequestError(f"MaxTokens needs a whole number of tokens, at least 1, not {self.length!r}")
        if not isinstance(self.scaffold, str | None):
            raise RequestError(f"the scaffold of MaxTokens is text, not {self.scaffold!r}")


@dataclass(frozen=True)
class Argument:
    """One argument. `bound` is None unless it is annotated with MaxTokens; `default` is None where it has none.

    `by_position` and `by_name` say how a call may give it.
    """

    name: str
    bound: MaxTokens | None
    default: str | int | None
    by_position: bool
    by_name: bool
    span: Span


def read_arguments(function: types.FunctionType, located: Located) -> tuple[Argument, ...]:
    """The arguments in the signature's order. Raises SchemaError for those that a schema function cannot have."""
    arguments = located.node.args
    for starred in (arguments.vararg, arguments.kwarg):
        if starred is not None:
            raise SchemaError(
                f"the argument *{starred.arg} collects any number of values, and a schema is fixed",
                hint="list each argument by name",
                span=located.span(starred),
            )
    hints = _annotations(function, located)
    signature = inspect.signature(function, follow_wrapped=False).parameters
    listed = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    if listed and listed[0].arg in ("self", "cls") and "." in function.__qualname__:
        raise SchemaError(
            f"`{function.__name__}` is a method, and a schema does not depend on an object",
            hint="move it out of the class, or leave out the first argument",
            span=located.span(listed[0]),
        )
    return tuple(_argument(node, hints.get(node.arg), signature[node.arg], located) for node in listed)


def _argument(node: ast.arg, annotation: object, parameter: inspect.Parameter, located: Located) -> Argument:
    span = located.span(node)
    bound = _bound(annotation, node.arg, span)
    value = None if parameter.default is parameter.empty else parameter.default
    if not isinstance(value, str | int | None):
        raise SchemaError(
            f"the default of `{node.arg}` is {value!r}",
            hint="a default is text, a whole number, a bool or None",
            span=span,
        )
    if bound is not None and not isinstance(value, str | None):
        raise SchemaError(f"the default of `{node.arg}` must be text, not {value!r}", span=span)
    refuse_illegal(value if isinstance(value, str) else "", f"the default of `{node.arg}`", span)
    refuse_illegal((bound and bound.scaffold) or "", f"the scaffold of `{node.arg}`", span)
    by_position = parameter.kind is not parameter.KEYWORD_ONLY
    return Argument(node.arg, bound, value, by_position, parameter.kind is not parameter.POSITIONAL_ONLY, span)


def _annotations(function: types.FunctionType, located: Located) -> dict[str, object]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except Exception as error:  # an annotation may be any expression, and fail in any way
        raise SchemaError(
            f"the annotations of `{function.__name__}` cannot be read: {error}",
            hint="import what they name at the top of the file",
            span=located.span(located.node),
        ) from error


def _bound(annotation: object, name: str, span: Span) -> MaxTokens | None:
    """The bound in `Annotated[str, MaxTokens(5)]`, also when that is one side of `... | None`."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        found = [_bound(side, name, span) for side in typing.get_args(annotation)]
        return next((bound for bound in found if bound is not None), None)
    if typing.get_origin(annotation) is not typing.Annotated:
        return None
    base, *extras = typing.get_args(annotation)
    if MaxTokens in extras:
        raise SchemaError(f"`{name}` is bounded by MaxTokens without a number", hint="write MaxTokens(5)", span=span)
    bounds = [extra for extra in extras if isinstance(extra, MaxTokens)]
    if not bounds:
        return None
    if base is not str and set(typing.get_args(base)) != {str, types.NoneType}:
        raise SchemaError(
            f"MaxTokens bounds text, and `{name}` is annotated as something else",
            hint=f"write `{name}: Annotated[str, MaxTokens({bounds[-1].length})]`",
            span=span,
        )
    return bounds[-1]


def refuse_illegal(text: str, what: str, span: Span) -> None:
    """Raises SchemaError where `text` holds a character that PML cannot."""
    if found := _ILLEGAL.search(text):
        raise SchemaError(
            f"{what} holds U+{ord(found[0]):04X}, a character that PML cannot hold", hint="take it out", span=span
        )
