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
from promptcache.source import Span

_IMPORT = "import the module, or leave the argument out"


def assign(given: Sequence[tuple[str, str]], uses: Sequence[Use], schema: Schema, faults: Faults) -> None:
    """Fills `Use.arguments`.

    Adds to `faults`: unknown parameters, modules that are not imported, arguments that fit several or come twice.
    """
    _Assigner(uses, schema, faults).all(given)


class _Assigner:
    def __init__(self, uses: Sequence[Use], schema: Schema, faults: Faults) -> None:
        self.schema = schema
        self.faults = faults
        self.uses = {use.address: use for use in _walk(uses)}
        self.parameters: dict[str, set[str]] = {}
        self.takers: dict[str, list[Use]] = {}
        for use in self.uses.values():
            names = self.parameters.setdefault(use.path, {parameter.name for parameter in parameters(use.module)})
            for name in names:
                self.takers.setdefault(name, []).append(use)

    def all(self, given: Sequence[tuple[str, str]]) -> None:
        for use in self.uses.values():
            spans = dict(use.source.argument_spans)
            for name, value in use.source.arguments:
                self.give(use, name, value, spans.get(name, use.source.span))
        for path, value in given:
            try:
                *steps, (name, index) = split_path(path)
                if index is not None:
                    raise PromptError(f'"{shorten(path)}" numbers a parameter', hint="number the import: plan[1]/days")
                self.give(self.found(path, steps) if steps else self.taker(name), name, value, None)
            except PromptError as error:
                self.faults.add(error)

    def give(self, use: Use, name: str, value: str, span: Span | None) -> None:
        names = self.parameters[use.path]
        if name not in names:
            message = f'module "{use.path}" has no parameter "{shorten(name)}"'
            declared = [parameter.name for parameter in parameters(use.module)]
            self.faults.add(PromptError(message, hint=suggest(name, declared, what="its parameters"), span=span))
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
        address = "/".join(f"{name}[{index}]" if index else name for name, index in steps)
        if address in self.uses:
            return self.uses[address]
        module = "/".join(name for name, _ in steps)
        if self.schema.module(module) is None:
            raise PromptError(
                f'schema "{self.schema.name}" has no module "{shorten(module)}"',
                hint=suggest(module, (known for known, _ in self.schema.walk_modules()), what="its modules"),
            )
        same = [use.address for use in self.uses.values() if use.path == module]
        if not same:
            raise PromptError(f'"{shorten(path)}" is given, and "{module}" is not imported', hint=_IMPORT)
        hint = suggest("", same, what="imported are")
        raise PromptError(f'"{shorten(path)}" is given, and "{address}" is not imported', hint=hint)


def _walk(uses: Sequence[Use]) -> Iterator[Use]:
    for use in uses:
        yield use
        yield from _walk(use.inner)
