"""Gives each argument to its import: those in XML stand on it, those of `Prompt(...)` name it by a path."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from promptcache.errors import PromptError
from promptcache.pml.faults import Faults
from promptcache.pml.import_paths import Step, split_path
from promptcache.pml.names import shorten, suggest
from promptcache.pml.schema import Schema
from promptcache.pml.scope import parameters
from promptcache.pml.use import Use


def assign(given: Sequence[tuple[str, str]], uses: Sequence[Use], schema: Schema, faults: Faults) -> None:
    """Fills `Use.arguments`. Adds to `faults`: unknown parameters, modules that are not imported, unclear or double
    arguments."""
    _Assigner(uses, schema, faults).all(given)


class _Assigner:
    def __init__(self, uses: Sequence[Use], schema: Schema, faults: Faults) -> None:
        self.uses = uses
        self.schema = schema
        self.faults = faults
        self.takers: dict[str, list[Use]] = {}
        for use in _walk(uses):
            for parameter in parameters(use.module):
                self.takers.setdefault(parameter.name, []).append(use)

    def all(self, given: Sequence[tuple[str, str]]) -> None:
        for use in _walk(self.uses):
            for name, value in use.source.arguments:
                self.give(use, name, value)
        for path, value in given:
            try:
                *steps, (name, index) = split_path(path)
                if index is not None:
                    raise PromptError(f'"{shorten(path)}" numbers a parameter', hint="number the import: plan[1]/days")
                self.give(self.found(path, steps) if steps else self.taker(name), name, value)
            except PromptError as error:
                self.faults.add(error)

    def give(self, use: Use, name: str, value: str) -> None:
        names = [parameter.name for parameter in parameters(use.module)]
        span = dict(use.source.argument_spans).get(name, use.source.span)
        if name not in names:
            message = f'module "{use.path}" has no parameter "{shorten(name)}"'
            self.faults.add(PromptError(message, hint=suggest(name, names, what="its parameters"), span=span))
        elif name in use.arguments:
            message = f'"{use.address}/{name}" is given twice'
            self.faults.add(PromptError(message, hint="give each argument once", span=span))
        else:
            use.arguments[name] = value

    def taker(self, name: str) -> Use:
        """The import that a parameter's bare name means."""
        takers = self.takers.get(name, [])
        if len(takers) == 1:
            return takers[0]
        if takers:
            raise PromptError(
                f'more than one imported module has a parameter "{name}"',
                hint=suggest("", (f"{use.address}/{name}" for use in takers), what="write one of"),
            )
        for path, module in self.schema.walk_modules():
            if any(parameter.name == name for parameter in parameters(module)):
                raise PromptError(f'"{name}" is a parameter of "{path}", which is not imported', hint=_IMPORT)
        raise PromptError(
            f'no imported module has a parameter "{shorten(name)}"',
            hint=suggest(name, self.takers, what="parameters of what is imported"),
        )

    def found(self, path: str, steps: Sequence[Step]) -> Use:
        """The import at a path."""
        level, names = self.uses, []
        use: Use | None = None
        for name, index in steps:
            names.append(name)
            same = [each for each in level if each.module.name == name]
            where = "/".join(names)
            if not same and self.schema.module(where):
                raise PromptError(f'"{shorten(path)}" is given, and "{where}" is not imported', hint=_IMPORT)
            if not same:
                known = (each for each, _ in self.schema.walk_modules())
                raise PromptError(
                    f'schema "{self.schema.name}" has no module "{shorten(where)}"',
                    hint=suggest(where, known, what="its modules"),
                )
            if (index or 0) >= len(same):
                raise PromptError(
                    f'"{shorten(path)}" is given, and "{where}" is imported {len(same)} times',
                    hint=f"the last one is {name}[{len(same) - 1}]",
                )
            use = same[index or 0]
            level = use.inner
        assert use is not None
        return use


_IMPORT = "import the module, or leave the argument out"


def _walk(uses: Sequence[Use]) -> Iterator[Use]:
    for use in uses:
        yield use
        yield from _walk(use.inner)
