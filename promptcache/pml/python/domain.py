"""What an argument of a schema function can be, gathered from how the function uses it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from promptcache.pml.names import shorten, suggest
from promptcache.pml.python.body import Constant, same


@dataclass(frozen=True)
class Domain:
    """The values that an argument takes.

    A `text` is a string or None (no argument), a `flag` a bool, a `choice` one of `values` or None (none of them), or
    any constant where an `else` takes the rest (`open`).
    """

    kind: Literal["text", "flag", "choice"]
    values: tuple[Constant, ...] = ()
    open: bool = False

    def merged(self, other: Domain) -> Domain | None:
        """Both uses of one argument together, or None where they cannot both be meant."""
        if self.kind != other.kind:
            return None
        values = tuple(dict.fromkeys((type(value), value) for value in self.values + other.values))
        return Domain(self.kind, tuple(value for _, value in values), self.open or other.open)

    def fault(self, name: str, value: object) -> tuple[str, str | None] | None:
        """Why `name` cannot be `value`, with a hint; None where it can."""
        if self.kind == "text":
            fits = isinstance(value, str | None)
            return None if fits else (f"`{name}` is text, not {_named(value)}", "give a str")
        if self.kind == "flag":
            fits = isinstance(value, bool)
            return None if fits else (f"`{name}` is a flag, not {_named(value)}", "give True or False")
        if value is None or any(same(value, known) for known in self.values):
            return None
        if self.open and isinstance(value, str | int):
            return None
        known = [str(constant) for constant in self.values]
        return f"`{name}` cannot be {shorten(repr(value))}", suggest(str(value), known, what="it can be")


def _named(value: object) -> str:
    return "None" if value is None else f"{shorten(repr(value))} ({type(value).__name__})"
