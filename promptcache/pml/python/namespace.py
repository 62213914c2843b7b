"""Looks up the names that a function's source uses, as the function itself would."""

from __future__ import annotations

import builtins
from types import FunctionType


def look_up(function: FunctionType, dotted: str) -> object | None:
    """What `dotted` (`beaches`, `places.beaches`) stands for in `function`; None where there is no such thing (yet)."""
    first, *rest = dotted.split(".")
    found: object | None = None
    for scope in (_closure(function), function.__globals__, vars(builtins)):
        if first in scope:
            found = scope[first]
            break
    for name in rest:
        found = getattr(found, name, None)
    return found


def _closure(function: FunctionType) -> dict[str, object]:
    """Variables of enclosing functions. A cell that nothing was assigned to yet is left out."""
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:
            continue
    return found
