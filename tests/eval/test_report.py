"""Tables and pictures."""

from __future__ import annotations

from pathlib import Path

import pytest

from eval.plots import bar_plot, line_plot, scatter_plot
from eval.table import markdown_table


def test_a_table_with_numbers_texts_and_gaps() -> None:
    table = markdown_table(["dataset", "ms", "n"], [["trec", 1234.5, 3], ["a|b\nc", None, 10_000]], digits=1)
    assert table == (
        "| dataset   |      ms |      n |\n"
        "|-----------|--------:|-------:|\n"
        "| trec      | 1,234.5 |      3 |\n"
        "| a\\|b<br>c |       - | 10,000 |\n"
    )


def test_a_table_without_rows_and_one_with_a_cell_too_few() -> None:
    assert markdown_table(["a"], []) == "| a   |\n|-----|\n"
    with pytest.raises(AssertionError):
        markdown_table(["a", "b"], [["x"]])


def test_pictures_are_png(tmp_path: Path) -> None:
    bar_plot(tmp_path / "bars.png", ["trec", "lcc"], {"stock": [3.0, 4.0], "ours": [1.0, 0.5]}, title="t", ylabel="ms")
    line_plot(tmp_path / "lines.png", {"x": [(2, 1.0), (1, 3.0)]}, title="t", xlabel="x", ylabel="y", log=True)
    scatter_plot(tmp_path / "points.png", {"a": (1.0, 2.0)}, title="t", xlabel="x", ylabel="y")
    for name in ("bars", "lines", "points"):
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_nothing_to_draw_is_an_empty_picture(tmp_path: Path) -> None:
    bar_plot(tmp_path / "bars.png", [], {}, title="t", ylabel="ms")
    line_plot(tmp_path / "lines.png", {}, title="t", xlabel="x", ylabel="y")
    assert (tmp_path / "bars.png").exists() and (tmp_path / "lines.png").exists()
