"""In which order a prompt's imports stand: the schema's, or the prompt's own."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Protocol

from promptcache.errors import PromptError
from promptcache.pml import BoundImport


class ImportOrder(Protocol):
    """The imports inside one parent, handed out as the parent's elements are walked in the schema's order."""

    def take(self, paths: Sequence[str]) -> list[BoundImport]:
        """The imports that stand in a stretch of siblings with nothing always present between them; `paths` are the
        paths of the stretch's modules, in the schema's order."""

    def end(self) -> None:
        """All elements have been walked. Raises PromptError when an import could not stand where the prompt has it."""


class SchemaOrder:
    """Every import at its module's place in the schema; of several imports of a module, the last."""

    def __init__(self, imports: Iterable[BoundImport]) -> None:
        self._imports = {item.path: item for item in imports}

    def take(self, paths: Sequence[str]) -> list[BoundImport]:
        """See ImportOrder."""
        return [self._imports[path] for path in paths if path in self._imports]

    def end(self) -> None:
        """See ImportOrder."""


class PromptOrder:
    """Imports as the prompt lists them, repeats included; what is always present between two siblings is a fence."""

    def __init__(self, imports: Iterable[BoundImport]) -> None:
        self._waiting = deque(imports)
        self._last: BoundImport | None = None

    def take(self, paths: Sequence[str]) -> list[BoundImport]:
        """See ImportOrder."""
        taken = []
        while self._waiting and self._waiting[0].path in paths:
            taken.append(self._waiting.popleft())
        self._last = taken[-1] if taken else self._last
        return taken

    def end(self) -> None:
        """See ImportOrder."""
        if not self._waiting:
            return
        item = self._waiting[0]
        assert self._last is not None, "every import has its place in one of the stretches"
        raise PromptError(
            f"{item.path!r} cannot stand behind {self._last.path!r}: text that is in every prompt stands between them "
            f"in the schema, and {item.path!r} before it",
            hint=f"import {item.path!r} first, or take that text out from between them",
            span=item.span,
        )
