"""Markdown tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def markdown_table(headers: Sequence[str], rows: Iterable[Sequence[object]], *, digits: int = 2) -> str:
    """A pipe table, ending in a line break. Columns of nothing but numbers stand to the right.

    Floats get `digits` decimals and None is a dash. Pipes and line breaks in texts are written so that they stay in
    their cell.
    """
    body = [list(row) for row in rows]
    assert all(len(row) == len(headers) for row in body), "every row has a cell for every header"
    numeric = [bool(body) and all(_is_number(row[i]) for row in body) for i in range(len(headers))]
    cells = [list(headers), *([_cell(value, digits) for value in row] for row in body)]
    widths = [max(3, *(len(row[i]) for row in cells)) for i in range(len(headers))]
    lines = [
        "".join(f"| {_pad(text, width, right)} " for text, width, right in zip(row, widths, numeric, strict=True)) + "|"
        for row in cells
    ]
    rule = "".join(
        "|" + "-" * (width + 1) + (":" if right else "-") for width, right in zip(widths, numeric, strict=True)
    )
    return "\n".join([lines[0], rule + "|", *lines[1:]]) + "\n"


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _cell(value: object, digits: int) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.{digits}f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value).replace("\\", "\\\\").replace("|", "\\|").replace("\r", "").replace("\n", "<br>")


def _pad(text: str, width: int, right: bool) -> str:
    return text.rjust(width) if right else text.ljust(width)
