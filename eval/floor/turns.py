"""Questions answered by all sides in turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from eval.floor.question import Question, Side, take_turns


def interleave(
    sides: Sequence[Side],
    questions: Iterator[Question],
    *,
    warmup: int,
    turns: int,
    later: bool,
    seldom: Side | None = None,
    every: int = 1,
) -> list[int]:
    """`turns` questions, each new to all sides, after one question `warmup` times that does not count. `seldom` takes
    part in one turn of `every`. Returns the lengths that the questions had, sorted."""
    question = next(questions)
    for number in range(warmup):
        take_turns(sides, question, number, later)
    for side in sides:
        side.forget()
    lengths = set()
    for number, question in enumerate(islice(questions, turns)):
        joined = [seldom, *sides] if seldom is not None and number % every == 0 else sides
        take_turns(joined, question, number, later)
        lengths.add(len(question.ids))
    return sorted(lengths)
