"""Time to first token against the hardware's floor: ours in all its ways, the stock model, transformers' recipes, the
stock model with no context, and the attention kernel alone, interleaved in one process."""

from __future__ import annotations

from itertools import chain
from typing import Any

from eval.config import EvalConfig
from eval.floor.bench import Bench
from eval.floor.grid import OPTIONS, Grid, Setting
from eval.floor.kernel_side import KernelSide
from eval.floor.question import Side
from eval.floor.stock_sides import FloorSide, FullSide, RecipeSide
from eval.floor.turns import interleave
from eval.options import check_options
from eval.progress import work_through
from eval.reports.floor import write_report
from eval.results import RunFolder
from promptcache.errors import RequestError
from promptcache.layout.policies.policy import policy


def run(config: EvalConfig, results: RunFolder) -> None:
    """Measures what is missing, then writes the report."""
    check_options(config, OPTIONS)
    grid = Grid.of(config)
    absent = _absent(grid)
    settings = {setting.part: setting for setting in grid.settings([n for n in grid.layouts if n not in absent])}
    bench: Bench | None = None
    for part in work_through(results, list(settings), "floor"):
        if bench is None:
            bench = Bench(config)
            bench.check_room(grid.contexts, max(grid.fresh))
        found = _measure(bench, settings[part], config, grid.rounds)
        results.add(part, {**found, "skipped": {**absent, **found["skipped"]}})
    rows = {row["part"]: row for row in results.rows()}
    write_report(results, [rows[part] for part in settings])


def _absent(grid: Grid) -> dict[str, str]:
    """Layouts that there are not, each with the reason. Raises RequestError when there is none at all."""
    absent = {}
    for name in grid.layouts:
        try:
            policy(name)
        except RequestError as fault:
            absent[name] = fault.message
    if len(absent) == len(grid.layouts):
        raise RequestError(f"no layout to measure: {'; '.join(absent.values())}", hint="options: {layouts: [reserved]}")
    return absent


def _measure(bench: Bench, setting: Setting, config: EvalConfig, rounds: int) -> dict[str, Any]:
    """All sides of one setting. A repeat is one full prefill and `rounds` turns of the others, each with a question
    that is new to all."""
    with bench.hold(setting.context, setting.variants) as held:
        questions = bench.questions(held, setting.fresh)
        engine, context = bench.engine, held.context
        heads = int(engine.model.config.get_text_config().num_attention_heads)
        full = FullSide(engine.model, bench.stock, context.ids)
        # A kernel's shapes are those of the first question; all have as many tokens where the tokenizer allows it.
        first = next(questions)
        others: list[Side] = [
            FloorSide(engine.model, bench.stock),
            KernelSide(context.cache, heads, len(first.ids)),
            RecipeSide(engine, bench.stock, context, crop=False),
            RecipeSide(engine, bench.stock, context, crop=True),
            *held.ours,
        ]
        fresh = interleave(
            others,
            chain([first], questions),
            warmup=config.warmup,
            turns=config.repeats * rounds,
            later=setting.later,
            seldom=full,
            every=rounds,
        )
        return {
            "context": len(context.ids),
            "fresh": fresh,
            "later": setting.later,
            "rounds": rounds,
            "sides": {side.name: side.figures() for side in (full, *others[: -len(held.ours)])},
            "ours": [side.figures() for side in held.ours],
            "skipped": held.skipped,
        }
