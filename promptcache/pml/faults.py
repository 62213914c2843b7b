"""The faults of one text, collected in one pass and raised as one error."""

from __future__ import annotations

from promptcache.errors import PromptCacheError

_MOST = 100
"""A text with this many faults is not read on: every fault costs a search for similar names."""


class Faults:
    """Collects faults; `raise_first` ends the pass."""

    def __init__(self) -> None:
        self._found: list[PromptCacheError] = []

    def add(self, fault: PromptCacheError) -> None:
        """Keeps a fault. Raises when there are too many to go on."""
        self._found.append(fault)
        if len(self._found) >= _MOST:
            self.raise_first()

    def raise_first(self) -> None:
        """Raises the fault that comes first in the text, the rest in its `others`; does nothing when there is none."""
        if self._found:
            first, *others = sorted(self._found, key=_place)
            first.others = tuple(others)
            raise first


def _place(fault: PromptCacheError) -> tuple[float, int]:
    return (fault.line or float("inf"), fault.column or 0)
