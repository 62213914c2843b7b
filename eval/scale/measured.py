"""Figures of a finished part of the `scale` suite's batches."""

from __future__ import annotations

from typing import Any

from eval.floor.ratios import middle, paired


def prefill_ratio(row: dict[str, Any]) -> float | None:
    """One by one over in a batch: the time until every question has its first token."""
    return paired(row["solo"]["prefill_ms"], row["batch"]["prefill_ms"])


def later_ratio(row: dict[str, Any]) -> float | None:
    """The same for a later token."""
    return paired(row["solo"]["later_ms"], row["batch"]["later_ms"])


def memory_ratio(row: dict[str, Any]) -> float:
    """What a batch takes over one copy of the context and the states that its rows computed."""
    memory = row["memory"]
    return float((memory["copy_bytes"] + memory["held_bytes"]) / (memory["copy_bytes"] + memory["tail_bytes"]))


def a_row(row: dict[str, Any], side: str) -> float | None:
    """Milliseconds until the first token, by row of the batch."""
    found = middle(row[side]["prefill_ms"])
    return None if found is None else found / row["rows"]
