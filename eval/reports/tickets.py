"""The report of the `tickets` suite."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np

from eval.plots import line_plot
from eval.results import RunFolder
from eval.table import markdown_table

SINGLE = ("full", "deepcopy", "crop", "ours", "floor")
"""Rows that take item by item."""

FULL_BATCHED, OURS_BATCHED = "full, batches of 32", "ours, batches of 32"

LETTERED = ("full", FULL_BATCHED, "crop", "ours", OURS_BATCHED)
"""Rows that are also measured with one letter for each label."""

SHARES = (0.5, 0.7, 0.87, 0.95, 0.99)
"""How much of a prompt is static, along the curve."""

_COLUMNS = (
    "row",
    "median",
    "p95",
    "tokens an item",
    "% below full",
    "accuracy %",
    "labels predicted",
    "largest score difference",
)

_PUBLISHED = "KDnuggets, Qwen2.5-0.5B, M2 laptop: 308.1 -> 133.5 ms a ticket, 57 % less"


def write_report(results: RunFolder, labels: list[str], truth: list[str]) -> None:
    """report.md and curve.png, from the labels and each ticket's own."""
    rows = {row["part"]: row for row in results.rows()}
    main = [row for part, row in rows.items() if part.startswith("main/")]
    lettered = [row for part, row in rows.items() if part.startswith("letters/")]
    merged = _merged(main)
    full, ours = merged["full"], merged["ours"]["ms"]
    ratios = [
        ["ours / crop recipe", _paired(ours, merged["crop"]["ms"])],
        ["ours / floor", _paired(ours, merged["floor"]["ms"])],
        ["full / ours", _paired(full["ms"], ours)],
        ["full / ours in batches of 32", _paired(full["ms"], merged[OURS_BATCHED]["ms"])],
        [
            "full in batches of 32 / ours in batches of 32",
            _paired(*(merged[name]["ms"] for name in (FULL_BATCHED, OURS_BATCHED))),
        ],
        ["ours / ours in batches of 32", _paired(ours, merged[OURS_BATCHED]["ms"])],
    ]
    curve = []
    for share in SHARES:
        part = rows[f"curve/{share}"]
        times = {name: statistics.median(row["ms"]) for name, row in part["rows"].items()}
        static = part["static_tokens"]
        curve.append(
            [
                100 * static / (static + part["item_tokens"]),
                static,
                *(times[name] for name in SINGLE),
                100 * (1 - times["ours"] / times["full"]),
            ]
        )
    static, item = main[0]["static_tokens"], main[0]["item_tokens"]
    results.write_report(
        f"# Tickets\n\n{len(truth)} tickets, {len(labels)} labels; {static} static tokens and {item:.1f} an item "
        f"({100 * static / (static + item):.0f} % static). Labels are scored in the item's own pass by all rows: "
        f"log-probability per token, less the label's mean over all tickets. Times are milliseconds an item. `full` in "
        f"batches fills shorter prompts up on their left, under a mask, and runs what it filled up; ours in batches "
        f"runs each item's own tokens, and was found to score as one by one, within {_batch_difference(merged):.1e}."
        "\n\n"
        + _table(merged, labels, truth)
        + f"\nPublished for comparison: {_PUBLISHED}.\n\n"
        + markdown_table(["ratio (median of paired items)", "value"], ratios)
        + _letters(lettered, labels, truth)
        + "\n## The gain grows with the static share\n\n"
        + markdown_table(["static %", "static tokens", *SINGLE, "% below full"], curve)
    )
    line_plot(
        results.path / "curve.png",
        {name: [(row[1], row[2 + number]) for row in curve] for number, name in enumerate(SINGLE)},
        title="Time an item against the static part",
        xlabel="static tokens",
        ylabel="ms an item",
    )


def _merged(parts: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The rows of all groups of tickets."""
    return {
        name: {
            "ms": [ms for part in parts for ms in part["rows"][name]["ms"]],
            "tokens": sum(part["rows"][name]["tokens"] for part in parts),
            "scores": np.array([scores for part in parts for scores in part["rows"][name]["scores"]]),
        }
        for name in parts[0]["rows"]
    }


def _table(merged: dict[str, dict[str, Any]], labels: list[str], truth: list[str]) -> str:
    full = merged["full"]
    lines = []
    for name, row in merged.items():
        choice = _decide(row["scores"])
        meant = name != "floor"
        lines.append(
            [
                name,
                statistics.median(row["ms"]),
                float(np.percentile(row["ms"], 95)),
                row["tokens"] / len(truth),
                100 * (1 - statistics.median(row["ms"]) / statistics.median(full["ms"])),
                100 * float(np.mean([labels[c] == t for c, t in zip(choice, truth, strict=True)])) if meant else None,
                len(set(choice.tolist())) if meant else None,
                f"{float(np.abs(row['scores'] - full['scores']).max()):.1e}" if meant else None,
            ]
        )
    return markdown_table(_COLUMNS, lines)


def _letters(parts: Sequence[dict[str, Any]], labels: list[str], truth: list[str]) -> str:
    if not parts:
        return ""
    static, item = parts[0]["static_tokens"], parts[0]["item_tokens"]
    return (
        "\n## One letter for each label\n\nThe same tickets where the instruction asks for a category's letter, one"
        f" token: no label takes a token of its own. {static} static tokens"
        f" ({100 * static / (static + item):.0f} % static).\n\n" + _table(_merged(parts), labels, truth)
    )


def _batch_difference(merged: dict[str, dict[str, Any]]) -> float:
    return float(np.abs(merged["ours"]["scores"] - merged[OURS_BATCHED]["scores"]).max())


def _decide(scores: np.ndarray) -> np.ndarray:
    """Each ticket's label, for scores [tickets, labels]: the highest above the label's own mean over all tickets.

    A small model prefers the same few labels behind any ticket; taking each label's mean away leaves what the ticket
    says (batch calibration, Zhou et al., ICLR 2024). All rows decide so.
    """
    chosen: np.ndarray = (scores - scores.mean(0)).argmax(1)
    return chosen


def _paired(top: Sequence[float], bottom: Sequence[float]) -> float:
    return statistics.median(a / b for a, b in zip(top, bottom, strict=True))
