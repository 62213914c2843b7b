"""What the project aims at, beside what the `floor` suite found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from eval.floor.measured import Row, limit, stock_ratio, times
from eval.floor.ratios import paired
from eval.table import markdown_table

_FRESH, _MIDDLE, _LONG = 32, 2048, 6144
_MODULES = {8: 1.1, 64: 1.3}
"""How much longer so many modules may take than one of the same length."""


def aims_table(rows: Sequence[Row], dtype: str) -> str:
    """The aims that can be told from these settings; the first way to reuse of each is held against them."""
    lines = [line for row in rows if row["later"] and _near(row["fresh"][-1], _FRESH) for line in _lines(row, dtype)]
    if not lines:
        return "None of the settings has an aim.\n"
    return markdown_table(["context", "fresh", "what", "aim", "shown", "met"], lines)


def _lines(row: Row, dtype: str) -> Iterator[list[object]]:
    ours = row["ours"][0]
    middle, long = _near(row["context"], _MIDDLE), _near(row["context"], _LONG)
    if middle or long:
        yield _line(row, "ours / limit", "at most", 1.10, paired(ours["ttft_ms"], limit(row)))
        crop = paired(ours["ttft_ms"], times(row, "crop"))
        yield _line(row, "ours / crop", "at most", 0.85 if middle else 0.6, crop)
        yield _line(row, "stock / ours", "at least", 25 if middle else 60, stock_ratio(row, ours))
    if long:
        later = paired(times(row, "deepcopy", "later_ms"), ours["later_ms"])
        yield _line(row, "stock / ours, later", "at least", 1.3 if dtype == "float32" else 1.1, later)
    for other in row["ours"]:
        if other["layout"] == "compact" and other["modules"] in _MODULES and ours["modules"] == 1:
            what = f"{other['modules']} modules, compact, any order / one module"
            shown = paired(other["ttft_ms"], ours["ttft_ms"])
            yield _line(row, what, "at most", _MODULES[other["modules"]], shown)


def _near(tokens: int, aim: int) -> bool:
    return abs(tokens - aim) <= aim // 10


def _line(row: Row, what: str, bound: str, aim: float, shown: float | None) -> list[object]:
    met = "-"
    if shown is not None:
        met = "yes" if (shown <= aim if bound == "at most" else shown >= aim) else "no"
    return [row["context"], row["fresh"][-1], what, f"{bound} {aim:g}", shown, met]
