"""Puts the values of a call to the arguments that they are meant for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from promptcache.errors import PromptCacheError
from promptcache.pml.names import suggest
from promptcache.pml.python.arguments import Argument

T = TypeVar("T")


def matched(
    name: str,
    arguments: Mapping[str, Argument],
    positional: Sequence[T],
    named: Iterable[tuple[str, T]],
    error: Callable[[str, str | None], PromptCacheError],
) -> dict[str, T]:
    """The values by argument name, as Python would match them; none needs to be given.

    `error` makes the exception that is raised for a value without an argument, or a second one for the same.
    """
    listed = [argument.name for argument in arguments.values() if argument.by_position]
    if len(positional) > len(listed):
        raise error(
            f"{name}() takes {len(listed)} values by position, and {len(positional)} are given",
            f"its arguments are: {', '.join(arguments)}" if arguments else "it has no arguments",
        )
    found = dict(zip(listed, positional, strict=False))
    for key, value in named:
        if key not in arguments or not arguments[key].by_name:
            raise error(
                f"{name}() has no argument `{key}`", suggest(key, [a for a in arguments if arguments[a].by_name])
            )
        if key in found:
            raise error(f"{name}() is given `{key}` twice", "give it by position or by name")
        found[key] = value
    return found
