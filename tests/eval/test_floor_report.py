"""The report of the `floor` suite: ratios worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from eval.config import EvalConfig
from eval.floor.ratios import added, by_repeat, middle, paired
from eval.reports.floor import write_report
from eval.results import RunFolder


def test_ratios_are_those_of_one_turn() -> None:
    # The ratio of the medians would be 2.
    assert paired([1.0, 4.0, 100.0], [1.0, 2.0, 200.0]) == 1.0
    assert paired([1.0, None, 4.0], [2.0, 1.0, None]) == 0.5
    assert paired([None], [1.0]) is None and middle([]) is None and middle([None, 3.0]) == 3.0
    assert added([1.0, None], [2.0, 1.0]) == [3.0, None]
    assert by_repeat([1.0, 2.0, 9.0, 4.0, None, 6.0], 3) == [2.0, 5.0]
    with pytest.raises(ValueError):
        paired([1.0], [1.0, 2.0])


def _ours(ttft: list[float], later: list[float | None], **how: Any) -> dict[str, Any]:
    parts = {"plan_ms": [1.0] * 4, "assemble_ms": [2.0] * 4, "prefill_ms": [96.5] * 4, "sample_ms": [0.5] * 4}
    held = {"modules": 1, "layout": "reserved", "path": "segments", "context": 2048, "exact": True, **how}
    return {**held, **parts, "ttft_ms": ttft, "later_ms": later, "encode_ms": 4000.0, "stored_bytes": 2**21}


def _row(context: int, ours: list[dict[str, Any]], later: list[float | None]) -> dict[str, Any]:
    sides = {
        "stock": {"ttft_ms": [3000.0, 2000.0]},
        "floor": {"ttft_ms": [90.0, 90.0, 90.0, 190.0]},
        "kernel": {"ttft_ms": [10.0, 10.0, 10.0, 10.0]},
        "deepcopy": {"ttft_ms": [250.0, 200.0, 200.0, 200.0], "later_ms": later},
        "crop": {"ttft_ms": [125.0, 125.0, 125.0, 125.0]},
    }
    row = {"part": f"{context}/32", "context": context, "fresh": [32], "later": True, "rounds": 2, "skipped": {}}
    return {**row, "sides": sides, "ours": ours}


def _cells(folder: Path) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in (folder / "report.md").read_text().split("\n")]


def test_the_table_and_the_aims(tmp_path: Path) -> None:
    one = _ours([100.0, 100.0, 100.0, 300.0], [30.0, 30.0, None, 60.0])
    eight = _ours([120.0, 110.0, 112.0, 330.0], [None] * 4, modules=8, layout="compact", exact=False)
    results = RunFolder(tmp_path, EvalConfig("floor"))
    rows = [_row(2048, [one, eight], [45.0, 60.0, 50.0, 60.0]), _row(6144, [one], [None] * 4)]
    rows[1]["skipped"] = {"compact": "unknown layout"}
    write_report(results, rows)
    cells = _cells(tmp_path)
    # Floor and kernel of each turn are added: 100, 100, 100, 200 ms; later tokens are compared in turns with both.
    line = next(line for line in cells if line[:5] == ["2,048", "32", "1", "reserved", "segments"])
    assert line[5:13] == ["100.00", "90.00", "10.00", "1.00", "0.80", "0.50", "20.00", "1.00"]
    assert line[13:] == ["30.00", "55.00", "1.50"]
    eighth = next(line for line in cells if line[:4] == ["2,048", "32", "8", "compact"])
    assert eighth[12] == "1.11"
    aims = {(line[0], line[2]): line[3:] for line in cells if len(line) == 6}
    assert aims["2,048", "ours / limit"] == ["at most 1.1", "1.00", "yes"]
    assert aims["2,048", "ours / crop"] == ["at most 0.85", "0.80", "yes"]
    assert aims["2,048", "stock / ours"] == ["at least 25", "20.00", "no"]
    assert aims["2,048", "8 modules, compact, any order / one module"] == ["at most 1.1", "1.11", "no"]
    assert aims["6,144", "ours / crop"] == ["at most 0.6", "0.80", "no"]
    assert aims["6,144", "stock / ours, later"] == ["at least 1.3", "-", "-"]
    report = (tmp_path / "report.md").read_text()
    assert "- compact: unknown layout" in report and "Medians of 6 turns" in report
    parts = next(line for line in cells if line[:1] == ["2,048"] and line[-1:] == ["yes"] and len(line) == 13)
    assert parts[5:] == ["1.00", "2.00", "96.50", "0.50", "100.00", "4,000.00", "2.00", "yes"]


def test_bfloat16_has_its_own_aim_for_later_tokens(tmp_path: Path) -> None:
    one = _ours([100.0] * 4, [50.0] * 4, context=6144)
    results = RunFolder(tmp_path, EvalConfig("floor", dtype="bfloat16"))
    write_report(results, [_row(6144, [one], [60.0] * 4)])
    assert ["6,144", "32", "stock / ours, later", "at least 1.1", "1.20", "yes"] in _cells(tmp_path)


def test_other_questions_have_no_aims(tmp_path: Path) -> None:
    row = {**_row(2048, [_ours([1.0] * 4, [1.0] * 4)], [1.0] * 4), "fresh": [8, 9]}
    write_report(RunFolder(tmp_path, EvalConfig("floor")), [row])
    report = (tmp_path / "report.md").read_text()
    assert "None of the settings has an aim" in report and "8 to 9" in report
