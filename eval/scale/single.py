"""One question at a time behind a context."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from eval.config import EvalConfig
from eval.floor.bench import Bench
from eval.floor.grid import Variant
from eval.floor.kernel_side import KernelSide
from eval.floor.question import Side
from eval.floor.stock_sides import FloorSide, FullSide
from eval.floor.turns import interleave
from eval.scale.grid import Grid


def measure(
    bench: Bench, grid: Grid, config: EvalConfig, tokens: int, variants: Sequence[Variant], *, stock: bool
) -> dict[str, Any]:
    """A context held in all these ways, against floor and kernel, and once a repeat against the full prefill where
    `stock` says so. Raises RequestError when nothing can hold it."""
    bench.check_room([tokens], grid.fresh)
    with bench.hold(tokens, variants) as held:
        engine, context = bench.engine, held.context
        questions = bench.questions(held, grid.fresh)
        first = next(questions)
        heads = int(engine.model.config.get_text_config().num_attention_heads)
        floor = FloorSide(engine.model, bench.stock)
        kernel = KernelSide(context.cache, heads, len(first.ids))
        full = FullSide(engine.model, bench.stock, context.ids) if stock else None
        sides: list[Side] = [floor, kernel, *held.ours]
        fresh = interleave(
            sides,
            chain([first], questions),
            warmup=config.warmup,
            turns=config.repeats * grid.rounds,
            later=True,
            seldom=full,
            every=grid.rounds,
        )
        compared: list[Side] = [floor, kernel, *([full] if full else [])]
        return {
            "context": len(context.ids),
            "fresh": fresh,
            "rounds": grid.rounds,
            "sides": {side.name: side.figures() for side in compared},
            "ours": [side.figures() for side in held.ours],
            "skipped": held.skipped,
        }
