"""Rows of a report by their dataset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eval.longbench.tasks import PAPER_DATASETS

Row = dict[str, Any]
"""A finished part of a run, with the dataset's name under `dataset`."""


def by_dataset(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    """The paper's eight first and in its order, then the others as they come."""
    order = dict.fromkeys([*PAPER_DATASETS, *(row["dataset"] for row in rows)])
    found = {name: [row for row in rows if row["dataset"] == name] for name in order}
    return [(name, group) for name, group in found.items() if group]


def paper_and_others(rows: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """Those of the paper's eight datasets, and the rest."""
    return (
        [row for row in rows if row["dataset"] in PAPER_DATASETS],
        [row for row in rows if row["dataset"] not in PAPER_DATASETS],
    )
