"""The ways to answer that the `quality` suite compares with the stock model's full prefill."""

from __future__ import annotations

from dataclasses import dataclass

from eval.longbench.split import Split


@dataclass(frozen=True)
class ReuseRow:
    """One way to answer with reuse: how the record's context is cut into what is stored."""

    name: str
    split: Split


ROWS = (ReuseRow("whole", "whole"), ReuseRow("modular", "modular"))
"""A further way is a further row; records are then computed anew for all rows, into another results folder."""

FULL = "full"
NO_CONTEXT = "no context"
"""The same question with nothing to read: how far off a prediction is that ignores the context."""
