"""The report of the `gpu` suite."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from statistics import median
from typing import Any

from eval.gpu.settings import Settings
from eval.paper import PAPER_COPIES, PAPER_GPU_TTFT
from eval.plots import line_plot
from eval.reports.run_facts import run_facts
from eval.results import RunFolder
from eval.table import markdown_table

Row = dict[str, Any]

_PLACED = {"device": "on the device", "host": "in main memory"}
_AIMS = {"device": (5.0, 8.0), "host": (1.5, 3.0)}
"""The paper's level and our aim at 4,096 tokens and more: how many times sooner."""


def write_report(results: RunFolder, settings: Settings, steps: Collection[str], failed: Mapping[str, str]) -> None:
    """report.md and gpu.png, of what there is; `failed` are steps with their faults."""
    rows = {row["part"]: row for row in results.rows()}
    done = {part: row for part, row in rows.items() if "skipped" not in row}
    times = [row for part, row in done.items() if part.startswith("ttft/")]
    checks = [row for part, row in done.items() if part.startswith("oracle/")]
    sections = ["# The paper's GPU figures\n", run_facts(results, data=False), _how(results, settings)]
    if checks:
        sections += ["## Against the stock model under an explicit mask\n", _oracle(checks)]
    if times:
        sections += ["## Time to first token\n", _ttft(times), _aims(times), "![ttft](gpu.png)\n"]
        sections += ["## Beside the paper\n", _beside(times)]
    if "batch" in done:
        sections += ["## A batch\n", _batch(done["batch"])]
    if "copies" in done:
        sections += ["## Copying states\n", _copies(done["copies"])]
    missing = [part for part in steps if part not in rows and part not in failed]
    skipped = [f"- `{part}`: {row['skipped']}\n" for part, row in rows.items() if "skipped" in row]
    skipped += [f"- `{part}` failed: {fault}\n" for part, fault in failed.items()]
    if missing or skipped:
        sections += ["## What is not here\n", "".join(skipped), _not_reached(missing)]
    results.write_report("\n".join(sections))
    if times:
        line_plot(results.path / "gpu.png", _lines(times), title="Time to first token", xlabel="tokens", ylabel="ms")


def _how(results: RunFolder, settings: Settings) -> str:
    config = results.config
    return (
        f"A model in the shape of `{config.model}` with random weights, made on the device: it says nothing, and costs"
        " what a trained one costs. Its tokenizer writes a token a byte. It is given more positions than Llama-2's"
        " 4,096, so that the longest prompts are whole; that costs nothing. Prompts are stored tokens in"
        f" {settings.modules} modules (encoding `isolated`) and {settings.fresh} new ones. `stock` is"
        " `model(ids, logits_to_keep=1)` from token ids to the first token, ours runs from the prompt's text to the"
        " first token; both end when the token is an integer in Python, which waits for the device. Sides take turns,"
        f" up to {config.repeats} times and as long as there is time; medians. A hook proved what was computed.\n"
    )


def _oracle(checks: list[Row]) -> str:
    headers = ["modules", "layout", "tokens", "off, one pass", "off, decode steps", "allowed", "noise", "full prefill"]
    lines = [
        [
            _PLACED[row["placement"]],
            row["layout"],
            row["tokens"],
            *(row[key] for key in ("error", "step_error", "limit", "noise", "contrast")),
            "yes" if row["passed"] else "**NO**",
        ]
        for row in checks
    ]
    return (
        "Largest difference of the logits of the last token and of four tokens behind it, over their spread. Allowed in"
        " half precision: 16 units in the last place, or four times what one unit in the input embeddings moves the"
        " stock model (`noise`). `full prefill`: how far that is off, in which modules see each other; reuse must be"
        " nearer.\n\n" + markdown_table([*headers, "passed"], lines, digits=5)
    )


def _ttft(rows: list[Row]) -> str:
    lines = [
        [
            row["context"],
            row["ours"]["fresh"],
            _PLACED[row["placement"]] + ("" if row["placement"] == "device" or row["locked"] else ", not locked"),
            median(row["stock"]["ttft_ms"]),
            median(row["ours"]["ttft_ms"]),
            _ratio(row),
            *(median(row["ours"][key]) for key in ("plan_ms", "assemble_ms", "prefill_ms")),
            row["ours"]["encode_ms"],
            *(median(found) if (found := row[side]["later_ms"]) else None for side in ("stock", "ours")),
            len(row["ours"]["ttft_ms"]),
            None if row["peak_bytes"] is None else row["peak_bytes"] / 2**30,
        ]
        for row in sorted(rows, key=lambda row: (row["context"], row["placement"]))
    ]
    headers = ["stored tokens", "new", "modules", "stock, ms", "ours, ms", "stock / ours", "plan", "assemble"]
    headers += ["prefill", "encoding, ms", "later token, stock, ms", "ours, ms", "runs", "peak, GiB"]
    return markdown_table(headers, lines, digits=2)


def _ratio(row: Row) -> float:
    """Stock over ours, within a turn."""
    pairs = zip(row["stock"]["ttft_ms"], row["ours"]["ttft_ms"], strict=True)
    return median(stock / ours for stock, ours in pairs)


def _aims(rows: list[Row]) -> str:
    said = []
    for placement, (level, aim) in _AIMS.items():
        ratios = [_ratio(row) for row in rows if row["placement"] == placement and row["context"] >= 4096]
        if ratios:
            least = min(ratios)
            verdict = "reached" if least >= aim else "at the paper's level" if least >= level else "below it"
            said.append(
                f"Modules {_PLACED[placement]}, from 4,096 tokens on: at least {least:.1f} times sooner; the paper's"
                f" level is {level}, the aim {aim}: {verdict}.\n"
            )
    return "\n".join(said)


def _beside(rows: list[Row]) -> str:
    lines: list[list[object]] = [["the paper", claim, value] for claim, value in PAPER_GPU_TTFT]
    for placement, placed in _PLACED.items():
        found = [row for row in rows if row["placement"] == placement]
        if found:
            ratios = [_ratio(row) for row in found]
            lines.append(["here", f"modules {placed}, all lengths", f"{min(ratios):.1f}x to {max(ratios):.1f}x"])
    return markdown_table(["who", "stock time over time with reuse", "value"], lines)


def _batch(row: Row) -> str:
    ms = {name: median(times) for name, times in row["ms"].items()}
    lines = []
    for what in ("first", "later"):
        alone, batch = (
            ms[f"{way}, first"] if what == "first" else ms[f"{way}, all"] - ms[f"{way}, first"]
            for way in ("one by one", "batch")
        )
        lines.append(["first tokens" if what == "first" else "later tokens", alone, batch, alone / batch])
    return (
        f"{row['rows']} prompts over one schema of {row['context']:,} stored tokens, {row['fresh']} new tokens and a"
        f" reply of {row['new_tokens']} each; {row['equal']:.0%} of the replies are the same.\n\n"
        + markdown_table(["what", "one by one, ms", "batch, ms", "times"], lines)
    )


def _copies(row: Row) -> str:
    names = {"host": "host to host", "up": "host to device", "device": "device to device"}
    lines = [
        [name, row["ms"][key], row["num_bytes"] / row["ms"][key] / 1e6, PAPER_COPIES[key]]
        for key, name in names.items()
    ]
    return f"Keys and values of one layer, {row['tokens']:,} tokens; the paper's are 5,000.\n\n" + markdown_table(
        ["copy", "ms", "GB/s", "the paper, ms"], lines
    )


def _not_reached(missing: list[str]) -> str:
    if not missing:
        return ""
    listed = ", ".join(f"`{part}`" for part in missing)
    return f"Not reached in the time that was given: {listed}. The same command goes on from here.\n"


def _lines(rows: list[Row]) -> dict[str, list[tuple[float, float]]]:
    lines: dict[str, list[tuple[float, float]]] = {"stock": []}
    for row in rows:
        ours = lines.setdefault(f"modules {_PLACED[row['placement']]}", [])
        ours.append((row["context"], median(row["ours"]["ttft_ms"])))
        if row["placement"] == "device":
            lines["stock"].append((row["context"], median(row["stock"]["ttft_ms"])))
    return lines
