"""What the body of a schema function says, as frozen values, before and after its calls are resolved."""

from __future__ import annotations

from dataclasses import dataclass

from promptcache.pml.nodes import Role
from promptcache.source import Span

Constant = str | int | None


def same(value: object, constant: Constant) -> bool:
    """Equality with a constant of the source, where 1 is not True and a text may be a member of a StrEnum."""
    if not isinstance(value, str | int | None) or isinstance(value, bool) is not isinstance(constant, bool):
        return False
    return value == constant


@dataclass(frozen=True)
class Slot:
    """The place of a bounded argument in a string."""

    argument: str
    span: Span


@dataclass(frozen=True)
class Line:
    """A string statement, on lines of its own: `texts[i]` stands before `slots[i]`, `texts[-1]` behind the last."""

    texts: tuple[str, ...]
    slots: tuple[Slot, ...]
    span: Span


@dataclass(frozen=True)
class Condition:
    """A condition over one argument: it is true (`values` is None), or it equals one of `values`."""

    argument: str
    values: tuple[Constant, ...] | None
    span: Span

    def holds(self, value: object) -> bool:
        """Whether the condition is met."""
        if self.values is None:
            return value is True
        return any(same(value, constant) for constant in self.values)


@dataclass(frozen=True)
class Branch:
    """Statements under one condition, `else` and `case _` where `condition` is None: a module."""

    name: str
    condition: Condition | None
    body: tuple[Statement, ...]
    span: Span


@dataclass(frozen=True)
class Choice:
    """Branches of which the first that holds is taken: a union."""

    branches: tuple[Branch, ...]
    span: Span


@dataclass(frozen=True)
class Speech:
    """Statements inside `with system():` and its like: a turn."""

    role: Role
    body: tuple[Statement, ...]
    span: Span


@dataclass(frozen=True)
class Passed:
    """An argument of the caller, handed on."""

    argument: str


@dataclass(frozen=True)
class Given:
    """One value in a call: an argument handed on, or a constant. `keyword` is None where it stands by position."""

    keyword: str | None
    value: Passed | Constant
    span: Span


@dataclass(frozen=True)
class Call:
    """A call of another schema function, by the dotted name written in the source: a nested module."""

    target: str
    values: tuple[Given, ...]
    span: Span


Statement = Line | Branch | Choice | Speech | Call
