"""The report of the `scale` suite."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from eval.floor.measured import Row, limit, stock_ratio, times
from eval.floor.ratios import middle, paired
from eval.plots import line_plot
from eval.reports.run_facts import run_facts
from eval.results import RunFolder
from eval.scale.grid import LAYOUTS, Grid
from eval.scale.measured import a_row, later_ratio, memory_ratio, prefill_ratio
from eval.table import markdown_table

_HOW = (
    "`floor` is the stock model over the new tokens alone, with no context; `kernel` our attention kernel over the same"
    " shapes for all layers, timed alone; `limit` their sum: what reuse has to take. `stock` is the full prefill of"
    " context and question. Ours runs from strings to the first token. A hook on the model proved for every run what"
    " was computed. All sides take turns in one process, with questions that are new to them; times are medians over"
    " turns, ratios medians of the turns' ratios.\n"
)


def write_report(results: RunFolder, grid: Grid, rows: Sequence[Row]) -> None:
    """report.md and three pictures."""
    found = [row for row in rows if row.keys() > {"part", "session", "skipped"}]
    lengths, whole, modules, batches = (
        [row for row in found if row["part"].startswith(axis)]
        for axis in ("tokens/", "modules/total", "modules/each/", "batch/")
    )
    config = results.config
    sections = [
        "# Cost as work grows\n",
        run_facts(results, data=False),
        _HOW,
        f"{config.repeats * grid.rounds} turns, stock in one of {grid.rounds}; {config.warmup} more before them as"
        " warm-up.\n",
        "## Tokens, in one module\n",
        _lengths(lengths),
        f"## Modules, {grid.total:,} tokens in all\n",
        _modules(whole),
        f"## Modules, {grid.each:,} tokens each\n",
        _modules(modules),
        f"## Questions at once, behind one context of {grid.context:,} tokens\n",
        _BATCHES,
        _batches(batches),
        _batch_memory(batches),
        *_skipped(rows),
        "![tokens](tokens.png)\n\n![modules](modules.png)\n\n![batch](batch.png)\n",
    ]
    results.write_report("\n".join(sections))
    _draw(results, grid, lengths, (*whole, *modules), batches)


def _lengths(rows: Sequence[Row]) -> str:
    lines = []
    for row in rows:
        (ours,) = row["ours"]
        sides = (middle(ours["ttft_ms"]), *(middle(times(row, name)) for name in ("floor", "kernel", "stock")))
        ratios = (paired(ours["ttft_ms"], limit(row)), stock_ratio(row, ours))
        once = (middle(ours["later_ms"]), ours["encode_ms"], ours["stored_bytes"] / 2**20)
        lines.append([row["context"], row["fresh"][-1], *sides, *ratios, *once])
    headers = ("context", "fresh", "ours, ms", "floor, ms", "kernel, ms", "stock, ms", "ours / limit", "stock / ours")
    return markdown_table([*headers, "later token, ms", "encoding once, ms", "stored, MiB"], lines)


def _modules(rows: Sequence[Row]) -> str:
    lines = []
    for row in rows:
        for ours in row["ours"]:
            fewest = next(other for other in row["ours"] if other["layout"] == ours["layout"])
            sides = (middle(ours["ttft_ms"]), middle(times(row, "floor")))
            more = paired(ours["ttft_ms"], fewest["ttft_ms"]) if len(row["ours"]) > len(LAYOUTS) else None
            parts = (middle(ours[part]) for part in ("plan_ms", "assemble_ms", "prefill_ms"))
            stock = stock_ratio(row, ours) if "stock" in row["sides"] else None
            ratios = (paired(ours["ttft_ms"], limit(row)), more, stock)
            later = (middle(ours["later_ms"]), ours["encode_ms"])
            lines.append([ours["modules"], ours["layout"], ours["context"], *sides, *ratios, *parts, *later])
    headers = ("modules", "layout", "context", "ours, ms", "floor, ms", "ours / limit", "ours / fewest modules")
    rest = ("stock / ours", "plan, ms", "assemble, ms", "prefill, ms", "later token, ms", "encoding once, ms")
    return markdown_table([*headers, *rest], lines)


_BATCHES = (
    "*In a batch*: the time until every question has its first token, the modules attended once for all; *one by one*"
    " the sum over the same questions. `floor` is the stock model over the questions alone, as rows of one pass; a"
    " stock prefill is that of one question with its context. A later token is the time of decoding over the tokens"
    " that came of it.\n"
)


def _batches(rows: Sequence[Row]) -> str:
    lines = []
    for row in rows:
        batch, solo, floor = row["batch"], row["solo"], row["floor"]
        first = (middle(batch["prefill_ms"]), middle(solo["prefill_ms"]), prefill_ratio(row), a_row(row, "batch"))
        against = (middle(floor["prefill_ms"]), paired(batch["prefill_ms"], floor["prefill_ms"]))
        later = (middle(batch["later_ms"]), middle(solo["later_ms"]), later_ratio(row))
        stock = middle(row["stock"]["ttft_ms"])
        lines.append([row["rows"], *first, *against, stock, *later, f"{row['alike']} of {row['asked']}"])
    first_headers = (
        "in a batch, ms",
        "one by one, ms",
        "one by one / batch",
        "a row, ms",
        "floor, ms",
        "batch / floor",
    )
    later_headers = ("later token in a batch, ms", "one by one, ms", "one by one / batch", "same answers")
    return markdown_table(["questions", *first_headers, "stock prefill of one, ms", *later_headers], lines)


def _batch_memory(rows: Sequence[Row]) -> str:
    lines = []
    for row in rows:
        memory = row["memory"]
        sizes = [memory[name] / 2**20 for name in ("copy_bytes", "tail_bytes", "held_bytes")]
        copies = (row["rows"] * memory["copy_bytes"] + memory["tail_bytes"]) / 2**20
        lines.append([row["rows"], *sizes, memory_ratio(row), copies])
    headers = ("questions", "one copy, MiB", "states computed, MiB", "held beside the copy, MiB")
    return (
        "Memory: what the tensors of the process took at most in a run of its own, beyond what was there before, beside"
        " the one copy in the store; the ratio is (copy + held) / (copy + states computed).\n\n"
        + markdown_table([*headers, "ratio", "a copy for each, MiB"], lines)
    )


def _skipped(rows: Sequence[Row]) -> Iterator[str]:
    reasons = {name: reason for row in rows for name, reason in row["skipped"].items()}
    if reasons:
        yield "## Not measured\n"
        yield "".join(f"- {name}: {reason}\n" for name, reason in reasons.items())


Point = tuple[float, float]


def _draw(
    results: RunFolder, grid: Grid, lengths: Sequence[Row], modules: Sequence[Row], batches: Sequence[Row]
) -> None:
    def line(rows: Sequence[Row], x: str, y: Callable[[Row], float | None]) -> list[Point]:
        return [(float(row[x]), found) for row in rows if (found := y(row)) is not None]

    sides: dict[str, list[Point]] = {
        name: line(lengths, "context", lambda row, name=name: middle(times(row, name)))  # type: ignore[misc]
        for name in ("stock", "floor")
    }
    sides["limit"] = line(lengths, "context", lambda row: middle(limit(row)))
    sides["ours"] = line(lengths, "context", lambda row: middle(row["ours"][0]["ttft_ms"]))
    file, title = results.path / "tokens.png", "As the context grows"
    line_plot(file, sides, title=title, xlabel="reused tokens", ylabel="ms to the first token", log=True)

    by_modules: dict[str, list[Point]] = {}
    for row in modules:
        together = row["part"] == "modules/total"
        kind = f"{grid.total:,} tokens in all" if together else f"{grid.each:,} tokens each"
        for ours in row["ours"]:
            point = (float(ours["modules"]), middle(ours["ttft_ms"]) or 0.0)
            by_modules.setdefault(f"{ours['layout']}, {kind}", []).append(point)
            if ours["layout"] == LAYOUTS[0]:
                by_modules.setdefault(f"limit, {kind}", []).append((point[0], middle(limit(row)) or 0.0))
    file, title = results.path / "modules.png", "As modules become more"
    line_plot(file, by_modules, title=title, xlabel="modules", ylabel="ms to the first token")

    by_rows = {
        "in a batch": line(batches, "rows", lambda row: a_row(row, "batch")),
        "one by one": line(batches, "rows", lambda row: a_row(row, "solo")),
        "floor": line(batches, "rows", lambda row: a_row(row, "floor")),
        "later token, in a batch": line(batches, "rows", lambda row: middle(row["batch"]["later_ms"])),
        "later token, one by one": line(batches, "rows", lambda row: middle(row["solo"]["later_ms"])),
    }
    file, title = results.path / "batch.png", "As questions become more"
    line_plot(file, by_rows, title=title, xlabel="questions at once", ylabel="ms a question or token", log=True)
