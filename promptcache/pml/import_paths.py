"""Paths like `miami[1]/beaches`, and the imports that a list of them means."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from promptcache.errors import PromptError
from promptcache.pml.document import MAX_DEPTH
from promptcache.pml.names import NAME, shorten
from promptcache.pml.nodes import Import

_STEP = re.compile(rf"({NAME.pattern})(?:\[([0-9]{{1,9}})\])?")

Step = tuple[str, int | None]
"""A name, and which of its imports is meant (from 0; None where none is given)."""


def split_path(path: str) -> tuple[Step, ...]:
    """The steps of a path. Raises PromptError for what is no path."""
    if not isinstance(path, str):
        raise PromptError(f"a path is a str like 'miami/beaches', not {type(path).__name__}", hint="list paths as text")
    matches = [_STEP.fullmatch(part) for part in path.split("/", MAX_DEPTH)]
    steps = tuple((match[1], int(match[2]) if match[2] else None) for match in matches if match)
    if len(steps) < len(matches):
        raise PromptError(
            f'"{shorten(path)}" is not a path',
            hint="write names with / between them: miami/beaches, or miami[1]/beaches",
        )
    return steps


def import_tree(paths: Iterable[str]) -> tuple[Import, ...]:
    """The imports that a list of paths means.

    Neighbours that share a leading part are one import; a number that was not there yet starts another. Raises
    PromptError.
    """
    if isinstance(paths, str):
        raise PromptError("imports is one text, not a list of paths", hint=f"write imports=[{shorten(paths)!r}]")
    root = _Branch("", 0)
    for path in paths:
        branch = root
        for name, index in split_path(path):
            branch = branch.step(name, index, path)
    return root.freeze().imports


@dataclass
class _Branch:
    """An import while the list is read. `counts` says how often each name was imported inside it."""

    name: str
    index: int
    children: list[_Branch] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    def step(self, name: str, index: int | None, path: str) -> _Branch:
        last = self.children[-1] if self.children else None
        if last and last.name == name and index in (None, last.index):
            return last
        count = self.counts.get(name, 0)
        if index is not None and index < count:
            raise PromptError(
                f'"{shorten(path)}" goes back to {name}[{index}], behind other imports',
                hint=f"list the paths of one import next to each other, or write {name}[{count}] for another",
            )
        if index is not None and index > count:
            raise PromptError(
                f'"{shorten(path)}" skips a number: {name} was imported {count} times before',
                hint=f"write {name}[{count}]",
            )
        self.counts[name] = count + 1
        self.children.append(_Branch(name, count))
        return self.children[-1]

    def freeze(self) -> Import:
        return Import(self.name, imports=tuple(child.freeze() for child in self.children))
