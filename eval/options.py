"""Settings that one suite alone understands."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

from eval.config import EvalConfig
from promptcache.errors import RequestError


def check_options(config: EvalConfig, known: Sequence[str]) -> None:
    """Raises RequestError for an option that the suite does not know: a misspelt one would be ignored in silence."""
    for name in config.options:
        if name not in known:
            close = difflib.get_close_matches(str(name), known, n=1)
            guess = f"did you mean {close[0]!r}? " if close else ""
            listed = ", ".join(known) or "none"
            raise RequestError(f"unknown option {name!r}", hint=f"{guess}options of {config.suite}: {listed}")


def names_option(config: EvalConfig, option: str, default: Sequence[str], known: Sequence[str]) -> tuple[str, ...]:
    """An option that is a list of known names. Raises RequestError for anything else."""
    if option not in config.options:
        return tuple(default)
    found: Any = config.options[option]
    if not isinstance(found, list) or not all(name in known for name in found):
        raise RequestError(f"options: {option} is {found!r}", hint=f"it is a list of some of: {', '.join(known)}")
    return tuple(found)
