"""The demonstration: prompts on the project's own schemas, with reuse, without, and by the stock model.

Reuse is what an engine does by default; `none` is the same without repair, which the paper does.

Every prompt is used once, so each timed question is new to the process. The first of each schema warms all sides up
and is not in the figures.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

from eval.config import EvalConfig
from eval.engine import end_ids, open_engine
from eval.results import RunFolder
from eval.stock_model import StockModel
from eval.table import markdown_table
from promptcache import PromptCache
from promptcache.config import DEFAULT_ENCODING, DEFAULT_REPAIR
from promptcache.errors import RequestError
from promptcache.pml import NewText, read_prompt

_SCHEMAS = ("trip", "game", "handbook")
_PROMPTS = 6
_HEADERS = (
    "schema",
    "prompts",
    "prompt tokens",
    "modules",
    "reused",
    "fresh",
    "repaired",
    "TTFT reuse, ms",
    "TTFT none, ms",
    "TTFT no reuse, ms",
    "TTFT stock, ms",
    "stock / reuse",
    "stock / none",
    "no reuse / stock",
    "clock / TTFT",
    "encoding, ms",
)


def run(config: EvalConfig, results: RunFolder) -> None:
    """Runs all prompts anew each time; a demonstration that shows old figures shows nothing."""
    folder = config.data or Path("schemas")
    aside, console = Console(stderr=True), Console(width=200, highlight=False)
    engine = open_engine(config, encoding=DEFAULT_ENCODING, repair=DEFAULT_REPAIR)
    stock = StockModel(engine.model, end_ids(engine))
    for name in _SCHEMAS:
        prompts = list(_prompts(folder, name))[: config.limit or _PROMPTS]
        with aside.status(f"encoding {name}"):
            schema = engine.load_schema(folder / f"{name}.xml")
        console.print(f"\n[bold]{name}[/bold]: {schema.num_tokens} tokens encoded in {schema.encode_ms:.0f} ms")
        for number, file in enumerate(track(prompts, description=name, console=aside, transient=True)):
            row = _measure(engine, stock, file, number)
            results.add(f"{name}/{file.stem}/{results.session}", {**row, "schema": name, "encode_ms": schema.encode_ms})
            console.print(f"  [dim]{file.stem}[/dim]  {row['question']}\n      {row['answer']}", markup=True)
    summary = _summary([row for row in results.rows() if row["session"] == results.session])
    _show(console, summary)
    report = results.write_report(f"# Demo\n\nMedians.\n\n{markdown_table(_HEADERS, summary)}")
    aside.print(f"report in {report}")


def _prompts(folder: Path, name: str) -> Iterator[Path]:
    """The prompts for a schema, in the order of their names."""
    found = sorted((folder / f"{name}.prompts").glob("*.xml"))
    if len(found) < 2:
        raise RequestError(
            f"{folder} holds {len(found)} prompts for {name}", hint="two or more are needed in NAME.prompts/"
        )
    yield from found


def _measure(engine: PromptCache, stock: StockModel, file: Path, number: int) -> dict[str, Any]:
    """One prompt on all sides, in rotating order."""
    plan = engine.plan(file)
    times: dict[str, float] = {}

    def ours(side: str, reuse: bool = True, repair: str | None = None) -> None:
        start = time.perf_counter()
        done = engine.generate(file, max_new_tokens=1, reuse=reuse, repair=repair)
        times[f"{side}_clock"] = (time.perf_counter() - start) * 1000
        times[side] = done.timings.ttft_ms

    def theirs() -> None:
        times["stock"] = stock.prefill(plan.token_ids).ms

    sides = [lambda: ours("reuse"), lambda: ours("none", repair="none"), lambda: ours("no_reuse", False), theirs]
    for turn in range(len(sides)):
        sides[(number + turn) % len(sides)]()
    done = engine.generate(file, max_new_tokens=40)
    return {
        "warmup": number == 0,
        "tokens": plan.num_tokens,
        "modules": len({run.segment.owner for run in plan.runs if run.segment and run.segment.owner}),
        "reused": done.usage.reused_tokens,
        "fresh": done.usage.fresh_tokens,
        "repaired": done.usage.repaired_tokens,
        "question": _question(file),
        "answer": " ".join(done.text.split()),
        **{f"{side}_ms": value for side, value in times.items()},
    }


def _question(file: Path) -> str:
    prompt = read_prompt(file)
    texts = [item.text for item in prompt.items if isinstance(item, NewText)] + [turn.text for turn in prompt.turns]
    return " ".join(" ".join(texts).split())


def _summary(rows: list[dict[str, Any]]) -> list[list[object]]:
    summary: list[list[object]] = []
    for name in _SCHEMAS:
        timed = [row for row in rows if row["schema"] == name and not row["warmup"]]

        def median(key: str, timed: list[dict[str, Any]] = timed) -> float:
            return statistics.median(row[key] for row in timed)

        def ratio(top: str, bottom: str, timed: list[dict[str, Any]] = timed) -> float:
            return statistics.median(row[top] / row[bottom] for row in timed)

        summary.append(
            [
                name,
                len(timed),
                *(round(median(key)) for key in ("tokens", "modules", "reused", "fresh", "repaired")),
                *(median(key) for key in ("reuse_ms", "none_ms", "no_reuse_ms", "stock_ms")),
                ratio("stock_ms", "reuse_ms"),
                ratio("stock_ms", "none_ms"),
                ratio("no_reuse_ms", "stock_ms"),
                ratio("reuse_clock_ms", "reuse_ms"),
                timed[0]["encode_ms"],
            ]
        )
    return summary


def _show(console: Console, summary: list[list[object]]) -> None:
    table = Table(title="Time to first token, medians over prompts that are each new to the process")
    for header in _HEADERS:
        table.add_column(header, justify="left" if header == "schema" else "right")
    for row in summary:
        table.add_row(*(f"{cell:,.2f}" if isinstance(cell, float) else str(cell) for cell in row))
    console.print(table)
