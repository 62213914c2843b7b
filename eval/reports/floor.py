"""The report of the `floor` suite."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from eval.floor.measured import Row, limit, stock_ratio, times
from eval.floor.question import LATER_TOKENS
from eval.floor.ratios import Times, middle, paired
from eval.plots import line_plot
from eval.reports.floor_aims import aims_table
from eval.reports.run_facts import run_facts
from eval.results import RunFolder
from eval.table import markdown_table

_PARTS = ("plan_ms", "assemble_ms", "prefill_ms", "sample_ms")


def write_report(results: RunFolder, rows: Sequence[Row]) -> None:
    """report.md and floor.png."""
    single = [row for row in rows if row["later"]]
    sections = [
        "# Time to first token against the floor\n",
        _how(results, rows),
        run_facts(results, data=False),
        "## Ours\n",
        _ours_table(rows),
        "## The other sides: time to first token, ms\n",
        _sides_table(rows),
        "## Where ours goes, ms\n",
        _parts_table(rows),
        "## Held against what it aims at\n",
        aims_table(rows, results.config.dtype),
        *_skipped(rows),
        "![floor](floor.png)\n",
    ]
    results.write_report("\n".join(sections))
    _draw(results, single)


def _how(results: RunFolder, rows: Sequence[Row]) -> str:
    config = results.config
    turns = config.repeats * rows[0]["rounds"]
    return (
        "`stock`: the full prefill, `model(ids, logits_to_keep=1)`. `deepcopy` and `crop`: a `DynamicCache` that holds"
        " the context; a question runs on a deep copy of it, or on itself and is cropped off afterwards. `floor`: the"
        " stock model over the question alone, with no context. `kernel`: our CPU attention kernel over the same shapes"
        " for all layers, timed alone. `limit` is floor plus kernel. `ours` is timed from strings (prompt, plan,"
        " assembling, prefill, sampling), the recipes from the question's text, stock and floor from token ids. The"
        " path `segments` attends states where they lie, `assembled` copies them together first, `prepacked` is"
        " `segments` with the linear layers' weights laid out for few rows (`prepack=True`). In the layout"
        " `compact` the modules are imported in a shuffled order. A hook on the model proved for every run that reuse,"
        " recipes and floor computed the question's tokens only, and stock all.\n\n"
        f"Medians of {turns} turns in one process, every side in every turn, another one first each time, each question"
        f" new from its first token on; stock once in {rows[0]['rounds']} turns. Before them {config.warmup} turns as"
        " warm-up. Ratios are medians of the turns' ratios; `stock / ours` takes a repeat's median of ours. Tokens are"
        f" counted, not asked for. A later token is the mean of up to {LATER_TOKENS} steps; stock's are those of"
        " `generate` with a `DynamicCache`.\n"
    )


def _each(rows: Sequence[Row]) -> Iterator[tuple[Row, Row]]:
    """Settings with each of their ways to reuse."""
    for row in rows:
        for ours in row["ours"]:
            yield row, ours


def _head(row: Row, ours: Row) -> list[object]:
    fresh = row["fresh"]
    counted = fresh[0] if len(fresh) == 1 else f"{fresh[0]} to {fresh[-1]}"
    return [ours["context"], counted, ours["modules"], ours["layout"], ours["path"]]


_HEAD = ("context", "fresh", "modules", "layout", "path")


def _one_module(row: Row) -> Times:
    """Turns of one module in the same setting, held by the path that the engine chooses."""
    found: Times = row["ours"][0]["ttft_ms"]
    return found


def _ours_table(rows: Sequence[Row]) -> str:
    lines = [
        [
            *_head(row, ours),
            middle(ours["ttft_ms"]),
            middle(times(row, "floor")),
            middle(times(row, "kernel")),
            paired(ours["ttft_ms"], limit(row)),
            paired(ours["ttft_ms"], times(row, "crop")),
            paired(ours["ttft_ms"], times(row, "deepcopy")),
            stock_ratio(row, ours),
            paired(ours["ttft_ms"], _one_module(row)),
            middle(ours["later_ms"]),
            middle(times(row, "deepcopy", "later_ms")),
            paired(times(row, "deepcopy", "later_ms"), ours["later_ms"]),
        ]
        for row, ours in _each(rows)
    ]
    ratios = ("ours / limit", "ours / crop", "ours / deepcopy", "stock / ours", "ours / first row of the setting")
    later = ("later token, ours", "stock", "stock / ours, later")
    return markdown_table([*_HEAD, "ours, ms", "floor, ms", "kernel, ms", *ratios, *later], lines)


def _sides_table(rows: Sequence[Row]) -> str:
    names = list(rows[0]["sides"])
    lines = [[row["context"], row["fresh"][-1], *(middle(times(row, name)) for name in names)] for row in rows]
    return markdown_table(["context", "fresh", *names], lines, digits=1)


def _parts_table(rows: Sequence[Row]) -> str:
    lines = [
        [
            *_head(row, ours),
            *(middle(ours[part]) for part in _PARTS),
            middle(ours["ttft_ms"]),
            ours["encode_ms"],
            ours["stored_bytes"] / 2**20,
            "yes" if ours["exact"] else "no",
        ]
        for row, ours in _each(rows)
    ]
    headers = ("plan", "assemble", "prefill", "sample", "whole", "encoding once", "stored, MiB", "exact")
    return markdown_table([*_HEAD, *headers], lines)


def _skipped(rows: Sequence[Row]) -> Iterator[str]:
    reasons = {name: reason for row in rows for name, reason in row["skipped"].items()}
    if reasons:
        yield "## Not measured\n"
        yield "".join(f"- {name}: {reason}\n" for name, reason in reasons.items())


def _draw(results: RunFolder, rows: Sequence[Row]) -> None:
    lines = {
        name: [(float(row["context"]), middle(times(row, name)) or 0.0) for row in rows]
        for name in ("stock", "deepcopy", "crop", "floor")
    }
    lines["limit"] = [(float(row["context"]), middle(limit(row)) or 0.0) for row in rows]
    lines["ours"] = [(float(row["context"]), middle(row["ours"][0]["ttft_ms"]) or 0.0) for row in rows]
    line_plot(
        results.path / "floor.png",
        lines,
        title="Time to first token",
        xlabel="reused tokens",
        ylabel="ms",
        log=True,
    )
