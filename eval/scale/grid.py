"""How far the `scale` suite goes in each direction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from eval.config import EvalConfig
from eval.floor.grid import numbers
from promptcache.errors import RequestError

OPTIONS = ("tokens", "modules", "total", "each", "rows", "context", "fresh", "rounds")

MOST = "most"
"""As many tokens as the model has positions for, the question and its answer included."""

LAYOUTS = ("reserved", "compact")

_TOKENS, _MODULES, _ROWS = (1024, 2048, 4096, MOST), (1, 8, 50, 200), (1, 4, 16, 32)


@dataclass(frozen=True)
class Grid:
    """`tokens`: contexts of one module, `MOST` among them. `modules`: how many a context is cut into, one of `total`
    tokens and ones of `each` tokens a module. `rows`: questions in a batch, behind one context of `context` tokens.
    Questions have `fresh` tokens; a repeat is `rounds` turns."""

    tokens: tuple[int | str, ...]
    modules: tuple[int, ...]
    total: int
    each: int
    rows: tuple[int, ...]
    context: int
    fresh: int
    rounds: int

    @classmethod
    def of(cls, config: EvalConfig) -> Grid:
        """From the run's options. Raises RequestError for values that make no sense."""
        options = config.options

        def one(name: str, default: int) -> int:
            return numbers(name, [options.get(name, default)])[0]

        return cls(
            tokens=_tokens(options.get("tokens", _TOKENS)),
            modules=numbers("modules", options.get("modules", _MODULES)),
            total=one("total", 2048),
            each=one("each", 32),
            rows=numbers("rows", options.get("rows", _ROWS)),
            context=one("context", 2048),
            fresh=one("fresh", 32),
            rounds=one("rounds", 3),
        )

    def parts(self) -> list[str]:
        """The parts' ids, in the order of measuring."""
        return [
            *(f"tokens/{tokens}" for tokens in self.tokens),
            "modules/total",
            *(f"modules/each/{count}" for count in self.modules),
            *(f"batch/{rows}" for rows in self.rows),
        ]


def _tokens(value: Any) -> tuple[int | str, ...]:
    if not isinstance(value, list | tuple) or not value:
        raise RequestError(f"options: tokens is {value!r}", hint=f"a list of whole numbers, and of '{MOST}'")
    counts = [number for number in value if number != MOST]
    most = (MOST,) if MOST in value else ()
    return (*(numbers("tokens", counts) if counts else ()), *most)
