"""Reports say what the rows say: figures worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from eval.bootstrap import Interval
from eval.config import EvalConfig
from eval.reports import quality, ttft
from eval.reports.by_dataset import by_dataset
from eval.reports.fidelity import interval_text
from eval.reports.ttft import break_even
from eval.results import RunFolder
from eval.rows import DEFAULT, ROWS, SCORED, TIMED


def _timed(dataset: str, max_length: int, stock: list[float], whole: list[float], later: list[float]) -> dict[str, Any]:
    ours = {
        "tokens": 1000,
        "fresh": 50,
        "computed": 50,
        "modules": 4,
        "exact": True,
        "encode_ms": 950.0,
        "stored_bytes": 2**21,
        "reply_tokens": 9,
        "ttft_ms": whole,
        "plan_ms": [1.0],
        "assemble_ms": [2.0],
        "prefill_ms": [7.0],
        "later_ms": later,
    }
    modular = {**ours, "tokens": 1010, "exact": False, "ttft_ms": [2 * ms for ms in whole]}
    sides = {"stock": {"tokens": 1000, "ttft_ms": stock, "later_ms": later}, "whole": ours, "modular": modular}
    sides[DEFAULT] = {**modular, "computed": 60, "ttft_ms": [3 * ms for ms in whole]}
    assert set(sides) == {"stock", *(row.name for row in TIMED)}
    part = f"{dataset}/0/{max_length}"
    return {"part": part, "dataset": dataset, "record": "r", "max_length": max_length, "sides": sides}


def test_ttft_takes_medians_of_repeats_means_of_records_and_ratios_of_means(tmp_path: Path) -> None:
    rows = [
        _timed("lcc", 512, [5.0], [1.0], []),
        _timed("2wikimqa", 512, [100.0, 900.0, 110.0], [10.0, 1.0, 10.0], [3.0, 5.0, 4.0]),
        _timed("2wikimqa", 512, [290.0], [30.0], []),
    ]
    results = RunFolder(tmp_path, EvalConfig("ttft", max_length=512))
    ttft.write_report(results, rows, rows[1:2])
    lines = [[cell.strip() for cell in line.split("|")] for line in (tmp_path / "report.md").read_text().split("\n")]
    main = next(line for line in lines if line[1:3] == ["2WikiMQA", "2"])
    assert main[3:14] == ["1,000", "1,010", "50", "4", "200.0", "20.0", "40.0", "60.0", "10.0", "5.0", "3.3"]
    encode = next(line for line in lines if line[1:4] == ["2WikiMQA", "950.0", "6"])
    assert encode[4:14] == ["2.0", "950.0", "6", "2.0", "950.0", "7", "2.0", "4.0", "4.0", "4.0"]
    assert ["", "2WikiMQA", "10", "40.00", "60.00", "1.50", ""] in lines
    assert ["", "here", "whole, highest dataset: 2WikiMQA", "10.0x", ""] in lines
    report = (tmp_path / "report.md").read_text()
    assert "+1.0%" in report and "exact for 3 of 3 prompts" in report and "exact for 0" in report


@pytest.mark.parametrize(
    ("encode", "saved", "requests"), [(100, 50, 3), (99, 50, 2), (0, 50, 1), (100, 0, None), (100, -1, None)]
)
def test_break_even(encode: float, saved: float, requests: int | None) -> None:
    assert break_even(encode, saved) == requests


def _answered(dataset: str, **rows: tuple[float, float]) -> dict[str, Any]:
    """(score, mean KL) of each row, those not given as modular; with a KL of -1 there was no answer token."""
    rows = {**{row.name: rows["modular"] for row in ROWS}, **rows}
    scored = (*SCORED, "no_context")
    known = all(kl >= 0 for _, kl in rows.values())
    found = {
        name.replace("_", " "): {"score": score if name in scored else None, "text": "", "tokens": 100}
        | ({"mean_kl": kl, "first_kl": kl, "top1": 0.5, "nll": 1 + kl, "full_nll": 1.0} if known else {})
        for name, (score, kl) in rows.items()
    }
    return {
        "part": f"{dataset}/0/512",
        "dataset": dataset,
        "record": "r",
        "max_length": 512,
        "answer_tokens": int(known),
        "rows": found,
    }


def test_quality_pools_records_and_stands_beside_the_paper(tmp_path: Path) -> None:
    rows = [
        _answered("2wikimqa", full=(50, 0), whole=(50, 0), modular=(40, 0.3), no_context=(0, 2)),
        _answered("2wikimqa", full=(0, 0), whole=(0, 0), modular=(0, 0.1), no_context=(0, 1)),
        _answered("lcc", full=(10, 0), whole=(10, 0), modular=(20, 0.5), no_context=(0, 3)),
        _answered("lcc", full=(30, -1), whole=(30, -1), modular=(30, -1), no_context=(0, -1)),
    ]
    quality.write_report(RunFolder(tmp_path, EvalConfig("quality", max_length=512)), rows)
    report = (tmp_path / "report.md").read_text()
    lines = [[cell.strip() for cell in line.split("|")] for line in report.split("\n")]
    scores = next(line for line in lines if line[1:2] == ["2WikiMQA (F1)"])
    assert scores[2:8] == ["2", "100", "25.00", "25.00", "20.00", "20.00"] and scores[8] == "0.00"
    assert scores[9:13] == ["16.63 / 13.95", "14.59 / 17.69", "10.44 / 13.70", "14.42 / 15.07"]
    assert next(line for line in lines if line[1:2] == ["lcc (edit similarity)"])[2] == "2"
    pooled = [line for line in lines if line[1:2] == ["modular"]]
    assert [line[2] for line in pooled] == ["3", "2", "2"]  # all, passages, the paper's
    assert pooled[0][3].startswith("0.300 [") and pooled[1][3].startswith("0.200 [")
    assert "`modular` costs 0.200 [0.100, 0.300] nats of KL a token on passage datasets (n = 2)" in report
    assert "by +0.200 [+0.100, +0.300]. An answer without any context is 1.500 away." in report


def test_quality_without_any_answer_is_a_table_of_scores(tmp_path: Path) -> None:
    rows = [_answered("lcc", full=(30, -1), whole=(30, -1), modular=(30, -1), no_context=(0, -1))]
    quality.write_report(RunFolder(tmp_path, EvalConfig("quality", max_length=512)), rows)
    report = (tmp_path / "report.md").read_text()
    assert "lcc (edit similarity)" in report and "pooled" not in report


def test_intervals_as_text() -> None:
    assert interval_text(Interval(0.26, 0.19, 0.3349)) == "0.260 [0.190, 0.335]"
    assert interval_text(Interval(-1e-9, -0.0, 0.04), digits=1, sign=True) == "+0.0 [+0.0, +0.0]"


def test_the_papers_datasets_come_first() -> None:
    rows = [{"dataset": name} for name in ("lcc", "triviaqa", "hotpotqa", "narrativeqa", "lcc")]
    assert [(name, len(group)) for name, group in by_dataset(rows)] == [
        ("narrativeqa", 1),
        ("triviaqa", 1),
        ("lcc", 2),
        ("hotpotqa", 1),
    ]
