"""Batches of questions behind one context."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from typing import Any

from eval.config import EvalConfig
from eval.floor.bench import Bench, Held
from eval.floor.grid import Variant
from eval.floor.our_side import OurSide
from eval.floor.question import Question
from eval.floor.stock_sides import FullSide
from eval.scale.batch_sides import BatchFloor, BatchSide, ManySide, SoloSide
from eval.scale.grid import Grid
from eval.scale.live import LiveBytes


class BatchBench:
    """One context for batches of all sizes, held from the first of them until `close`."""

    def __init__(self, bench: Bench, grid: Grid, config: EvalConfig) -> None:
        self._bench, self._grid, self._config = bench, grid, config
        self._stack = ExitStack()
        self._held: Held | None = None

    def close(self) -> None:
        """Forgets the context."""
        self._stack.close()

    def measure(self, rows: int) -> dict[str, Any]:
        """So many questions at once: in a batch, one by one, and as the floor has them, in turn; once a repeat also
        the full prefill of one of them. Raises RequestError when the context cannot be held."""
        if self._held is None:
            self._bench.check_room([self._grid.context], self._grid.fresh)
            self._held = self._stack.enter_context(self._bench.hold(self._grid.context, [Variant(1, "reserved")]))
        held, config = self._held, self._config
        (ours,), model = held.ours, self._bench.engine.model
        questions = self._bench.questions(held, self._grid.fresh)
        batch, solo, floor = BatchSide(ours), SoloSide(ours), BatchFloor(model)
        full = FullSide(model, self._bench.stock, held.context.ids)
        sides: list[ManySide] = [batch, solo, floor]
        for number in range(config.warmup):
            _take_turns(sides, list(islice(questions, rows)), number)
        for side in sides:
            side.forget()
        alike = asked = 0
        for number in range(config.repeats * self._grid.rounds):
            many = list(islice(questions, rows))
            if number % self._grid.rounds == 0:
                full.take(many[0], False)
            _take_turns(sides, many, number)
            alike += sum(one == other for one, other in zip(batch.answers, solo.answers, strict=True))
            asked += rows
        return {
            "rows": rows,
            "context": len(held.context.ids),
            "rounds": self._grid.rounds,
            "alike": alike,
            "asked": asked,
            "batch": batch.figures(),
            "solo": solo.figures(),
            "floor": floor.figures(),
            "stock": full.figures(),
            "memory": _memory(ours, questions, rows),
            "skipped": {},
        }


def _take_turns(sides: list[ManySide], questions: list[Question], number: int) -> None:
    for turn in range(len(sides)):
        sides[(number + turn) % len(sides)].take(questions)


def _memory(ours: OurSide, questions: Iterator[Question], rows: int) -> dict[str, int]:
    """Bytes of the one copy of the context, of all that the batch held beside it, and of the states that its rows
    computed: what it had to hold."""
    batch, many = BatchSide(ours), list(islice(questions, rows))
    with LiveBytes(ours.engine.model) as live:
        batch.take(many)
    # The last token of an answer is never run.
    pairs = zip(many, batch.answers, strict=True)
    tail_tokens = sum(len(question.ids) + len(answer) - 1 for question, answer in pairs)
    figures = ours.figures()
    copy_bytes = int(figures["stored_bytes"])
    return {
        "copy_bytes": copy_bytes,
        "held_bytes": live.peak,
        "tail_bytes": tail_tokens * copy_bytes // int(figures["context"]),
    }
