"""The helpers that mark a turn inside a schema function: `with system():`."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass

from promptcache.errors import RequestError
from promptcache.pml.nodes import Role


@dataclass(frozen=True)
class TurnMark:
    """Stands for `role` in the `with` of a schema function. It is read there, never run."""

    role: Role

    def __call__(self) -> AbstractContextManager[None]:
        raise RequestError(
            f"{self.role}() marks a turn inside a function under @schema; it does nothing elsewhere",
            hint=f"write `with {self.role}():` in the function that @schema decorates",
        )


system = TurnMark("system")
user = TurnMark("user")
assistant = TurnMark("assistant")
