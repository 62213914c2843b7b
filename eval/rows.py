"""The ways to answer that the suites compare with the stock model's full prefill."""

from __future__ import annotations

from dataclasses import dataclass

from eval.longbench.split import Split
from promptcache.config import DEFAULT_ENCODING, DEFAULT_REPAIR


@dataclass(frozen=True)
class ReuseRow:
    """One way to answer with reuse: how the record's context is cut into what is stored, what a module saw when it was
    encoded, and what is computed again."""

    name: str
    split: Split
    encoding: str = "isolated"
    repair: str = "none"


REPAIRS = (DEFAULT_REPAIR, "query:0.1")
"""The repair policies that are shown beside none, the engine's default first; `tradeoff` compares more."""

ROWS = (
    ReuseRow("whole", "whole"),
    ReuseRow("modular", "modular"),
    *(ReuseRow(repair, "modular", repair=repair) for repair in REPAIRS),
    ReuseRow("anchored", "modular", encoding="anchored"),
    *(ReuseRow(f"anchored {repair}", "modular", encoding="anchored", repair=repair) for repair in REPAIRS),
)
"""A further way is a further row; records are then computed anew for all rows, into another results folder."""

DEFAULT = f"{DEFAULT_ENCODING} {DEFAULT_REPAIR}"
"""The row that an engine answers like unless told otherwise."""

TIMED = tuple(row for row in ROWS if row.name in ("whole", "modular", DEFAULT))
"""The rows of `ttft`: those that share an encoding stand together. What other repair costs is in `tradeoff`."""

FULL = "full"
NO_CONTEXT = "no context"
"""The same question with nothing to read: how far off a prediction is that ignores the context."""

SCORED = (FULL, "whole", "modular", DEFAULT)
"""The rows whose answers are written to their end and scored, unless a run names others: that can take longer than all
else, and says less."""
