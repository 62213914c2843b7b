"""Which settings the `floor` suite measures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from eval.config import EvalConfig
from promptcache.errors import RequestError

OPTIONS = ("contexts", "fresh", "modules", "layouts", "rounds", "full")

_CONTEXTS, _FRESH, _MODULES, _LAYOUTS = (512, 2048, 6144), (1, 8, 32, 64), (1, 8, 64), ("reserved", "compact")
_BASE_CONTEXT, _BASE_FRESH = 2048, 32


@dataclass(frozen=True)
class Variant:
    """One way to hold a context with reuse. `path` is the engine's attention, `prepacked` what it chooses with
    `prepack=True`, None what it chooses without."""

    modules: int
    layout: str
    path: str | None = None

    @property
    def name(self) -> str:
        """For names of schemas."""
        return f"{self.modules}-{self.layout}-{self.path or 'default'}"


@dataclass(frozen=True)
class Setting:
    """What is measured together, side by side: a context, a question's length, and ways to hold the context. `later`:
    the time of later tokens is measured as well."""

    context: int
    fresh: int
    variants: tuple[Variant, ...]
    later: bool

    @property
    def part(self) -> str:
        """The part's id."""
        return f"{self.context}/{self.fresh}"


@dataclass(frozen=True)
class Grid:
    """All settings. By default modules and layouts change at one context and one question's length, the question's
    length at one context, and the context at one question's length; with `full` everything is crossed."""

    contexts: tuple[int, ...]
    fresh: tuple[int, ...]
    modules: tuple[int, ...]
    layouts: tuple[str, ...]
    rounds: int
    full: bool

    @classmethod
    def of(cls, config: EvalConfig) -> Grid:
        """From the run's options. Raises RequestError for values that make no sense."""
        options = config.options
        full = options.get("full", False)
        if not isinstance(full, bool):
            raise RequestError(f"options: full is {full!r}", hint="it is true or false")
        layouts = options.get("layouts", _LAYOUTS)
        if not _is_list(layouts) or not layouts or not all(isinstance(name, str) for name in layouts):
            raise RequestError(f"options: layouts is {layouts!r}", hint="it is a list of layouts' names")
        (rounds,) = numbers("rounds", [options.get("rounds", 5)])
        return cls(
            contexts=numbers("contexts", options.get("contexts", _CONTEXTS)),
            fresh=numbers("fresh", options.get("fresh", _FRESH)),
            modules=numbers("modules", options.get("modules", _MODULES)),
            layouts=tuple(dict.fromkeys(layouts)),
            rounds=rounds,
            full=full,
        )

    def settings(self, layouts: Sequence[str]) -> list[Setting]:
        """In the order of measuring. `layouts` are those of the grid's that there are, one at least; parts' ids do not
        depend on them."""
        base_context = _BASE_CONTEXT if _BASE_CONTEXT in self.contexts else self.contexts[-1]
        base_fresh = _BASE_FRESH if _BASE_FRESH in self.fresh else self.fresh[-1]
        single = Variant(min(self.modules), layouts[0])
        assembled = Variant(min(self.modules), layouts[0], "assembled")
        prepacked = Variant(min(self.modules), layouts[0], "prepacked")
        others = (assembled, prepacked)
        every = (*(Variant(modules, layout) for layout in layouts for modules in self.modules), *others)
        found = []
        for context in self.contexts:
            for fresh in self.fresh:
                at_base = fresh == base_fresh
                if self.full or (at_base and context == base_context):
                    variants = every
                elif at_base:
                    variants = (single, *others)
                elif context == base_context:
                    variants = (single,)
                else:
                    continue
                fitting = tuple(variant for variant in variants if variant.modules <= context)
                found.append(Setting(context, fresh, fitting or (Variant(1, layouts[0]),), at_base))
        return found


def numbers(name: str, value: Any) -> tuple[int, ...]:
    """An option that is a list of whole numbers from 1 up, sorted, without repeats. Raises RequestError."""
    if not _is_list(value) or not value or not all(type(number) is int and number >= 1 for number in value):
        raise RequestError(f"options: {name} is {value!r}", hint="whole numbers from 1 up")
    return tuple(sorted(set(value)))


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)
