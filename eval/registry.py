"""The suites by name. A suite is a module with `run(config, results)`; it is imported only when asked for."""

from __future__ import annotations

import difflib
import importlib
from typing import Protocol

from eval.config import EvalConfig
from eval.results import RunFolder
from promptcache.errors import RequestError

SUITES: dict[str, str] = {
    "demo": "eval.suites.demo",
    "tickets": "eval.suites.tickets",
    "ttft": "eval.suites.ttft",
    "quality": "eval.suites.quality",
    "gaps": "eval.suites.gaps",
    "tradeoff": "eval.suites.tradeoff",
    "restart": "eval.suites.restart",
    "floor": "eval.suites.floor",
    "families": "eval.suites.families",
    "peers": "eval.suites.peers",
    "memory": "eval.suites.memory",
    "usecases": "eval.suites.usecases",
    "scale": "eval.suites.scale",
    "gpu": "eval.suites.gpu",
}
"""Name to module."""


class Suite(Protocol):
    """One evaluation.

    `run` computes the parts that `results` does not have yet (eval/progress.py walks them), adds each as soon as it is
    finished, and writes the report from `results.rows()`. It may be killed anywhere and called again; when all parts
    are there it computes nothing. A part's id says what it is (`2wikimqa/3/modular`), never when it was computed. User
    errors leave it as PromptCacheError.
    """

    def run(self, config: EvalConfig, results: RunFolder) -> None: ...


def find_suite(name: str) -> Suite:
    """The suite of that name. Raises RequestError with all names when there is none."""
    if name not in SUITES:
        close = difflib.get_close_matches(name, SUITES, n=1)
        guess = f"did you mean {close[0]!r}? " if close else ""
        raise RequestError(f"unknown suite {name!r}", hint=f"{guess}suites: {', '.join(SUITES)}")
    suite: Suite = importlib.import_module(SUITES[name])
    return suite
