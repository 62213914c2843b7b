"""Follows one call of a schema function: which modules it imports, and with which arguments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from promptcache.pml.python.body import Branch, Call, Choice, Line, Passed, Speech, Statement
from promptcache.pml.python.link import Program, given_values


@dataclass(frozen=True)
class Chosen:
    """The imports of a prompt as paths (`miami/beaches`), and its arguments by path (`plan/days`)."""

    imports: tuple[str, ...]
    arguments: Mapping[str, str]


def choose(program: Program, values: Mapping[str, object]) -> Chosen:
    """What the function says when it is called with `values`, which fit its domains. Others keep their defaults.

    An argument that is left out and has no default imports nothing: a flag is false, a choice none, a text empty.
    """
    found = list(_follow(program, program.body, values))
    imports = tuple(path for path, text in found if text is None)
    return Chosen(imports, {path: text for path, text in found if text is not None})


def _follow(
    program: Program, body: tuple[Statement, ...], values: Mapping[str, object]
) -> Iterator[tuple[str, str | None]]:
    """The path of each import, with None, and of each argument, with its text."""
    for statement in body:
        match statement:
            case Line(slots=slots):
                for slot in slots:
                    if isinstance(text := _value(program, slot.argument, values), str):
                        yield slot.argument, text
            case Speech(body=inner):
                yield from _follow(program, inner, values)
            case Branch() | Choice():
                branches = (statement,) if isinstance(statement, Branch) else statement.branches
                taken = next((branch for branch in branches if _holds(program, branch, values)), None)
                if taken is not None and (call := program.only_call(taken)):
                    yield from _call(program, call, values)
                elif taken is not None:
                    yield from _enter(taken.name, program, taken.body, values)
            case Call():
                yield from _call(program, statement, values)


def _enter(
    name: str, program: Program, body: tuple[Statement, ...], values: Mapping[str, object]
) -> Iterator[tuple[str, str | None]]:
    """A module's own path, unless an import inside it says that already, and what is inside it."""
    found = list(_follow(program, body, values))
    if all(text is not None for _, text in found):
        yield name, None
    for path, text in found:
        yield f"{name}/{path}", text


def _call(program: Program, call: Call, values: Mapping[str, object]) -> Iterator[tuple[str, str | None]]:
    """The called function's module, with the values that it is given."""
    callee = program.callees[call.target]
    inner = {
        name: _value(program, given.value.argument, values) if isinstance(given.value, Passed) else given.value
        for name, given in given_values(call, callee).items()
    }
    yield from _enter(callee.name, callee, callee.body, inner)


def _holds(program: Program, branch: Branch, values: Mapping[str, object]) -> bool:
    condition = branch.condition
    return condition is None or condition.holds(_value(program, condition.argument, values))


def _value(program: Program, name: str, values: Mapping[str, object]) -> object:
    return values[name] if name in values else program.arguments[name].default
