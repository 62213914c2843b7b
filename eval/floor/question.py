"""One question, and who answers it in turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

LATER_TOKENS = 8
"""How many tokens behind the first are timed."""


@dataclass(frozen=True)
class Question:
    """New text behind a context. `ids` are its tokens as they stand in the prompt."""

    text: str
    ids: tuple[int, ...]


class Side(Protocol):
    """One way to answer. Lists in `figures` have one value a turn since `forget`, None where there was none;
    `first_tokens` are the first tokens of the answers."""

    name: str

    def take(self, question: Question, later: bool) -> None:
        """Answers once; with `later` also goes on by up to `LATER_TOKENS` tokens, where the side can. Raises
        MeasurementError when something else was computed than the side is measured for."""

    def forget(self) -> None:
        """Drops the times so far: they were warm-up."""

    def figures(self) -> dict[str, Any]:
        """As JSON values; times in milliseconds."""


def take_turns(sides: Sequence[Side], question: Question, number: int, later: bool) -> None:
    """All sides answer one question; another one begins each time `number` grows."""
    for turn in range(len(sides)):
        sides[(number + turn) % len(sides)].take(question, later)


def mean_or_none(values: Sequence[float]) -> float | None:
    """The mean, None of nothing."""
    return sum(values) / len(values) if values else None
