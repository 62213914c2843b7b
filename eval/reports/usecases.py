"""The report of the `usecases` suite."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from eval.paper import PAPER_USE_CASES
from eval.plots import bar_plot
from eval.reports.run_facts import run_facts
from eval.reports.ttft import break_even
from eval.results import RunFolder
from eval.table import markdown_table

Row = dict[str, Any]


def write_report(results: RunFolder, rows: Sequence[Row]) -> None:
    """report.md and usecases.png."""
    sections = [
        "# The paper's use cases\n",
        run_facts(results, data=False),
        _how(results, rows),
        "## Time to first token\n",
        _times(rows),
        "## With repair\n",
        _repairs(rows),
        "## Beside the paper's figures\n",
        _beside(rows),
        "## Prompt by prompt\n",
        _prompts(rows),
        "![use cases](usecases.png)\n",
    ]
    results.write_report("\n".join(sections))
    sides = {
        "stock": [_stock(row) for row in rows],
        **{name: [_ours(row, name) for row in rows] for name in _ways(rows)},
    }
    names = [row["part"] for row in rows]
    bar_plot(results.path / "usecases.png", names, sides, title="Time to first token", ylabel="ms", log=True)


def _how(results: RunFolder, rows: Sequence[Row]) -> str:
    config = results.config
    return (
        "`stock` is the full prefill of a prompt's tokens by the stock model, at positions without gaps, from token ids"
        " to the first token. Ours runs from the prompt's file to the first token: reading, planning, gathering states,"
        " the pass over what is computed, sampling. `none` computes the fresh tokens only, a repair policy some of the"
        f" stored ones again; the engine's default is `{rows[0]['default']}`. A hook on the model proved for every run"
        f" what was computed. {config.repeats} repeats a prompt, all sides in turn, after {config.warmup} as warm-up;"
        " times are medians over prompts of their medians, ratios medians of the ratios within a repeat. Encoding is"
        " timed once and stores the whole schema, what no prompt imports included; *break-even* is the number of"
        " requests from which it has paid.\n"
    )


def _ways(rows: Sequence[Row]) -> list[str]:
    return list(next(iter(rows[0]["prompts"].values()))["ours"])


def _middle(row: Row, *keys: str) -> float | None:
    """The median over the prompts of a figure, or of the medians of a list of them; None where there is none."""
    found = []
    for prompt in row["prompts"].values():
        value: Any = prompt
        for key in keys:
            value = value[key]
        if value not in (None, []):
            found.append(median(value) if isinstance(value, list) else value)
    return median(found) if found else None


def _stock(row: Row) -> float:
    return _middle(row, "stock", "ttft_ms") or 0.0


def _ours(row: Row, way: str) -> float:
    return _middle(row, "ours", way, "ttft_ms") or 0.0


def _ratio(prompts: Sequence[Row], way: str) -> float:
    """Stock over ours."""
    pairs = (zip(each["stock"]["ttft_ms"], each["ours"][way]["ttft_ms"], strict=True) for each in prompts)
    ratios: list[float] = [stock / ours for pair in pairs for stock, ours in pair]
    return median(ratios)


def _times(rows: Sequence[Row]) -> str:
    lines = []
    for row in rows:
        stock, ours = _stock(row), _ours(row, "none")
        tokens, fresh = (round(_middle(row, "ours", "none", key) or 0) for key in ("tokens", "fresh"))
        counts = (
            len(row["prompts"]),
            round(_middle(row, "ours", "none", "modules") or 0),
            tokens,
            tokens - fresh,
            fresh,
        )
        encoding = (row["stored_tokens"], row["stored_bytes"] / 2**20, row["encode_ms"])
        later = (_middle(row, "stock", "later_ms"), _middle(row, "ours", "none", "later_ms"))
        ratio = _ratio(list(row["prompts"].values()), "none")
        paid = break_even(row["encode_ms"], stock - ours)
        lines.append([row["part"], row["schema"], *counts, stock, ours, ratio, *encoding, paid, *later])
    headers = ["use case", "schema", "prompts", "modules", "tokens", "reused", "fresh", "stock, ms", "`none`, ms"]
    headers += ["stock / none", "stored tokens", "MiB", "encoding, ms", "break-even, requests"]
    return markdown_table([*headers, "later token, stock, ms", "ours, ms"], lines, digits=1)


def _repairs(rows: Sequence[Row]) -> str:
    lines = [
        [
            row["part"],
            way,
            round(_middle(row, "ours", way, "computed") or 0),
            _ours(row, way),
            _ratio(list(row["prompts"].values()), way),
        ]
        for row in rows
        for way in _ways(rows)
    ]
    return markdown_table(["use case", "repair", "computed tokens", "ms", "stock / ours"], lines, digits=1)


def _beside(rows: Sequence[Row]) -> str:
    lines: list[list[object]] = []
    for row in rows:
        told, gpu, cpu = PAPER_USE_CASES[row["part"]]
        for who, (full, cached) in (("the paper, GPU", gpu), ("the paper, CPU", cpu)):
            lines.append([told, who, float(full), float(cached), full / cached])
        ours = (_stock(row), _ours(row, "none"), _ratio(list(row["prompts"].values()), "none"))
        lines.append([f"schema `{row['schema']}`", "here", *ours])
    headers = ["use case", "who", "full, ms", "cached, ms", "times"]
    return (
        "Models, machines and prompts differ: the paper's are of 7B on its own GPU and CPU, with its own schemas and"
        " modules in local memory; ours are those of this run. What can be compared is the kind of prompt, not a"
        " figure.\n\n" + markdown_table(headers, lines, digits=1)
    )


def _prompts(rows: Sequence[Row]) -> str:
    lines = []
    for row in rows:
        for name, prompt in row["prompts"].items():
            ours = prompt["ours"]["none"]
            counts = (ours["tokens"], ours["tokens"] - ours["fresh"], ours["fresh"], prompt["gaps"])
            times = (median(prompt["stock"]["ttft_ms"]), median(ours["ttft_ms"]), _ratio([prompt], "none"))
            parts = (median(ours[key]) for key in ("plan_ms", "assemble_ms", "prefill_ms"))
            lines.append([row["part"], name, *counts, *times, *parts, "yes" if ours["exact"] else "no"])
    headers = ["use case", "prompt", "tokens", "reused", "fresh", "free positions", "stock, ms", "`none`, ms"]
    return markdown_table([*headers, "stock / none", "plan", "assemble", "prefill", "exact"], lines, digits=1)
