"""The report of the `restart` suite."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

from eval.reports.run_facts import run_facts
from eval.results import RunFolder
from eval.table import markdown_table

_RESTART = (
    "schema",
    "codec",
    "stored tokens",
    "MiB on disk",
    "encode + first token, ms",
    "load + first token, ms",
    "times faster",
    "first request, ms",
    "warm request, ms",
    "first / warm",
)
_CHANGE = ("schema", "codec", "bytes to plain", "KL, nats a token", "NLL change, nats a token", "same top token")


def write_report(results: RunFolder) -> None:
    """Medians over the repeats, ratios taken within one."""
    rows = list(results.rows())
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        if "restart" in row:
            groups.setdefault((row["schema"], row["codec"]), []).append(row)

    def median(found: list[dict[str, Any]], value: Callable[[dict[str, Any]], float]) -> float:
        return statistics.median(value(row) for row in found)

    restarts = [
        [
            *group,
            found[0]["restart"]["stored_tokens"],
            found[0]["num_bytes"] / 2**20,
            median(found, lambda row: row["encoding"]["ready_ms"]),
            median(found, lambda row: row["restart"]["ready_ms"]),
            median(found, lambda row: row["encoding"]["ready_ms"] / row["restart"]["ready_ms"]),
            median(found, lambda row: row["restart"]["first_ms"]),
            median(found, lambda row: row["restart"]["warm_ms"]),
            median(found, lambda row: row["restart"]["first_ms"] / row["restart"]["warm_ms"]),
        ]
        for group, found in groups.items()
    ]
    changes = [
        [
            row["schema"],
            row["codec"],
            groups[row["schema"], row["codec"]][0]["num_bytes"] / groups[row["schema"], "none"][0]["num_bytes"],
            row["kl"],
            row["nll_change"],
            row["same_top"],
        ]
        for row in rows
        if "kl" in row
    ]
    results.write_report(
        "# Restart\n\nTwo new processes each time: one encodes the schema and answers the first of its prompts, one "
        "finds it stored. Times begin where the model is loaded; the page cache holds the file. Medians.\n\n"
        f"{markdown_table(_RESTART, restarts)}\n"
        "# Codecs\n\nAgainst plain states, on the reply that those gave.\n\n"
        f"{markdown_table(_CHANGE, changes, digits=4)}\n{run_facts(results, data=False)}"
    )
