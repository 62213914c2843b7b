"""A way to answer: what is stored, what it saw, where it sits, what is computed again."""

from __future__ import annotations

from dataclasses import dataclass

from eval.config import EvalConfig
from eval.rows import DEFAULT
from promptcache.errors import RequestError
from promptcache.runtime.repair.base import repair_policy

_KINDS = ("modular", "parameters", "gaps")
_ENCODINGS = ("isolated", "anchored")
_LAYOUTS = ("reserved", "compact")

DEFAULT_WAYS = (
    "none",
    "link:1",
    "link:4",
    "link:8",
    "within:1.5",
    "query:0.1",
    "query:0.25",
    "auto:0.15",
    "anchored none",
    "anchored link:1",
    "anchored link:4",
    DEFAULT,
    "anchored within:1.5",
    "anchored query:0.05",
    "anchored query:0.1",
    "anchored query:0.25",
    "anchored link:8+query:0.1",
    "parameters none",
    "parameters link:8",
    "parameters query:0.1",
    "gaps none",
    "gaps link:8",
    "gaps query:0.1",
)
"""Words that are not there mean modular, isolated, reserved. The layout moves no answer, so `compact` is left out."""


@dataclass(frozen=True)
class Way:
    """`kind`: every passage is a module; or its number is an argument as well; or free positions stand before it."""

    name: str
    kind: str
    encoding: str
    layout: str
    repair: str

    @property
    def group(self) -> tuple[str, str, str]:
        """Ways of one group share stored states, and are timed in turns."""
        return self.kind, self.encoding, self.layout


def find_ways(config: EvalConfig) -> tuple[Way, ...]:
    """The ways that the options name, else all. Each group has its `none`. Raises RequestError."""
    named = config.options.get("ways", DEFAULT_WAYS)
    if isinstance(named, str) or not all(isinstance(name, str) for name in named) or not named:
        raise RequestError(f"options: ways is {named!r}", hint="it is a list such as [none, link:8, anchored none]")
    ways = [_parse(name) for name in ("none", *named)]
    bases = [
        _parse(" ".join(word for word in way.group if word not in ("modular", "isolated", "reserved")) + " none")
        for way in ways
    ]
    return tuple({way.name: way for way in (*bases, *ways)}.values())


def _parse(name: str) -> Way:
    kind, encoding, layout = _KINDS[0], _ENCODINGS[0], _LAYOUTS[0]
    *words, repair = name.split() or [""]
    for word in words:
        if word in _KINDS:
            kind = word
        elif word in _ENCODINGS:
            encoding = word
        elif word in _LAYOUTS:
            layout = word
        else:
            raise RequestError(
                f"options: ways: {name!r} has the word {word!r}",
                hint=f"words before the repair policy: {', '.join((*_KINDS, *_ENCODINGS, *_LAYOUTS))}",
            )
    if kind == "gaps" and layout == "compact":
        raise RequestError(f"options: ways: {name!r}", hint="the compact layout leaves no gaps")
    repair_policy(repair)
    return Way(" ".join([*words, repair]), kind, encoding, layout, repair)
