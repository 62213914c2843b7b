"""What the `gpu` suite is asked to measure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from eval.config import EvalConfig
from eval.options import check_options
from promptcache.errors import RequestError

_KNOWN = ("minutes", "contexts", "fresh", "modules", "oracle", "batch", "copied")


@dataclass(frozen=True)
class Settings:
    """`minutes`: the time for all. `contexts`: stored tokens of a prompt, in `modules` modules, with `fresh` new ones
    behind them. `oracle`: lengths of the four modules of the check. A batch has `rows` prompts over `batch_context`
    stored tokens and gets `new_tokens` each. `copied`: tokens whose states are copied, layer by layer."""

    minutes: float
    contexts: tuple[int, ...]
    fresh: int
    modules: int
    oracle: tuple[int, int, int, int]
    rows: int
    batch_context: int
    new_tokens: int
    copied: int

    @classmethod
    def of(cls, config: EvalConfig) -> Settings:
        """From a run's options. Raises RequestError for values that are none."""
        check_options(config, _KNOWN)
        options = config.options
        batch = options.get("batch", {})
        if not isinstance(batch, Mapping) or not batch.keys() <= {"rows", "context", "new_tokens"}:
            raise RequestError(f"options: batch is {batch!r}", hint="such as {rows: 16, context: 2048, new_tokens: 32}")
        minutes = options.get("minutes", 7.5)
        if isinstance(minutes, bool) or not isinstance(minutes, int | float) or not minutes > 0:
            raise RequestError(f"options: minutes is {minutes!r}", hint="give a number above 0")
        contexts = _numbers("contexts", options.get("contexts", [1024, 2048, 4096, 8192, 16384]))
        oracle = _numbers("oracle", options.get("oracle", [300, 200, 40, 500]))
        if len(oracle) != 4:
            raise RequestError(f"options: oracle is {list(oracle)}", hint="give the lengths of four modules")
        fresh, modules, copied = (
            _numbers(name, [options.get(name, default)])[0]
            for name, default in (("fresh", 32), ("modules", 8), ("copied", 5000))
        )
        rows, context, new_tokens = (
            _numbers(f"batch: {name}", [batch.get(name, default)])[0]
            for name, default in (("rows", 16), ("context", 2048), ("new_tokens", 32))
        )
        if min(*contexts, context) < modules:
            raise RequestError(f"{min(*contexts, context)} tokens in {modules} modules", hint="one token a module")
        a, b, c, d = oracle
        return cls(
            float(minutes),
            tuple(sorted(set(contexts))),
            fresh,
            modules,
            (a, b, c, d),
            rows,
            context,
            new_tokens,
            copied,
        )

    @property
    def longest(self) -> int:
        """Positions that the longest prompt and its reply take."""
        return max(*self.contexts, self.batch_context + self.new_tokens, sum(self.oracle)) + self.fresh + 16


def _numbers(name: str, value: Any) -> tuple[int, ...]:
    if not isinstance(value, list) or not value or not all(type(each) is int and each > 0 for each in value):
        raise RequestError(f"options: {name} is {value!r}", hint="whole numbers from 1 up")
    return tuple(value)
