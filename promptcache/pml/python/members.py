"""Names of modules that come from Python names and constants: the same in every process."""

from __future__ import annotations

from promptcache.pml.python.body import Condition


def name_of(condition: Condition) -> str:
    """A flag's name; the text that an argument is compared to, or `argument-value` where that is no text."""
    if condition.values is None:
        return condition.argument
    first = condition.values[0]
    return first if isinstance(first, str) else f"{condition.argument}-{str(first).lower()}"


def name_of_rest(argument: str) -> str:
    """The name of an `else` or `case _`, by the argument that the chain asks about first.

    No argument has a dot in its name, so this meets no flag's module.
    """
    return f"{argument}.else"
