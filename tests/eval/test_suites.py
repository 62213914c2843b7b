"""The suites from their command line, on a tiny model and tiny records: what they compute, resume, refuse and write."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eval.__main__ import main
from eval.rows import DEFAULT, ROWS, SCORED, ReuseRow
from eval.stock_model import StockModel
from promptcache import PromptCache
from promptcache.config import DEFAULT_ENCODING, DEFAULT_REPAIR
from tests.eval.tiny_run import LCC, WIKI, save_data, save_model

OPTIONS = {"ttft": "{long_max_length: 600}", "quality": "{long_max_length: 600}", "gaps": "{gaps: [0, 300, 16]}"}
PARTS = {
    "ttft": ["2wikimqa/0/500", "2wikimqa/1/500", "lcc/0/500", "2wikimqa/0/600", "2wikimqa/1/600", "2wikimqa/0/512"],
    "quality": ["2wikimqa/0/500", "2wikimqa/1/500", "lcc/0/500", "2wikimqa/0/600", "2wikimqa/1/600"],
    "gaps": ["2wikimqa/0/500", "2wikimqa/1/500", "lcc/0/500"],
}
PICTURES = {"ttft": ["growth.png", "ttft.png"], "quality": ["fidelity.png"], "gaps": ["gaps.png"]}
SUITES = sorted(PARTS)

Run = Callable[..., int]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    save_model(folder / "model")
    save_data(folder / "data", {"2wikimqa": [{**WIKI, "context": WIKI["context"] * 5}, WIKI], "lcc": [LCC]})
    return folder


@pytest.fixture(scope="module")
def finished(place: Path) -> dict[str, Path]:
    """A finished run of every suite."""
    return {suite: place / suite for suite in SUITES if _run(place, suite, place / suite) == 0}


def _run(place: Path, suite: str, out: Path) -> int:
    (place / "options.yaml").write_text(f"options: {OPTIONS[suite]}\n")
    return main(
        [
            suite,
            *("--model", str(place / "model"), "--data", str(place / "data"), "--datasets", "2wikimqa,lcc"),
            *("--max-length", "500", "--repeats", "2", "--config", str(place / "options.yaml"), "--out", str(out)),
        ]
    )


def _rows(folder: Path) -> dict[str, dict[str, Any]]:
    lines = (folder / "parts.jsonl").read_text(encoding="utf-8").split("\n")[:-1]
    return {row["part"]: row for row in map(json.loads, lines)}


@pytest.mark.parametrize("suite", SUITES)
def test_it_writes_every_part_a_report_and_pictures(finished: dict[str, Path], suite: str) -> None:
    folder = finished[suite]
    assert list(_rows(folder)) == PARTS[suite]
    report = (folder / "report.md").read_text(encoding="utf-8")
    assert "torch 2." in report and "float32" in report and "nan" not in report
    assert "accuracy kept" not in report
    for picture in PICTURES[suite]:
        assert (folder / picture).read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("suite", SUITES)
def test_a_second_run_computes_nothing(finished, place, suite, monkeypatch) -> None:
    report = (finished[suite] / "report.md").read_bytes()
    monkeypatch.setattr(PromptCache, "from_pretrained", None)
    assert _run(place, suite, finished[suite]) == 0
    assert (finished[suite] / "report.md").read_bytes() == report


@pytest.mark.parametrize("suite", SUITES)
def test_a_killed_run_goes_on_where_it_was(finished, place, suite, tmp_path, monkeypatch) -> None:
    calls = 0
    prefill = StockModel.prefill
    fatal = 5 if suite == "gaps" else 12

    def killed(self, *args):
        nonlocal calls
        calls += 1
        if calls == fatal:
            raise KeyboardInterrupt
        return prefill(self, *args)

    monkeypatch.setattr(StockModel, "prefill", killed)
    assert _run(place, suite, tmp_path) == 130
    done = list(_rows(tmp_path))
    assert 0 < len(done) < len(PARTS[suite])
    assert _run(place, suite, tmp_path) == 0
    assert list(_rows(tmp_path)) == PARTS[suite]
    assert {row["session"] for row in _rows(tmp_path).values()} == {0, 1}


@pytest.mark.parametrize("suite", SUITES)
def test_a_baseline_that_reuses_something_ends_the_run(place, suite, tmp_path, monkeypatch, capsys) -> None:
    prefill = StockModel.prefill
    # As if a part of the prompt had been there already.
    monkeypatch.setattr(StockModel, "prefill", lambda self, ids, *_: prefill(self, ids[1:]))
    assert _run(place, suite, tmp_path) == 1
    assert "prefill: passes of" in capsys.readouterr().err and not (tmp_path / "parts.jsonl").exists()


@pytest.mark.parametrize("suite", SUITES)
def test_reuse_that_computes_everything_ends_the_run(place, suite, tmp_path, monkeypatch, capsys) -> None:
    for name in ("stream", "continuation_logits"):
        method = getattr(PromptCache, name)
        monkeypatch.setattr(
            PromptCache, name, lambda self, *a, _of=method, **more: _of(self, *a, **{**more, "reuse": False})
        )
    assert _run(place, suite, tmp_path) == 1
    assert "reuse" in capsys.readouterr().err and not (tmp_path / "parts.jsonl").exists()


@pytest.mark.parametrize("suite", SUITES)
def test_schemas_do_not_pile_up(place, suite, tmp_path, monkeypatch) -> None:
    engines = []
    opened = PromptCache.from_pretrained.__func__

    def remember(cls, *args, **more):
        engines.append(opened(cls, *args, **more))
        return engines[-1]

    monkeypatch.setattr(PromptCache, "from_pretrained", classmethod(remember))
    assert _run(place, suite, tmp_path) == 0
    (engine,) = engines
    assert not engine.schemas and len(engine.store) == 0


def test_the_default_row_is_the_engines_default() -> None:
    (row,) = [row for row in ROWS if row.name == DEFAULT]
    assert (row.split, row.encoding, row.repair) == ("modular", DEFAULT_ENCODING, DEFAULT_REPAIR)


def test_ttft_counts_and_times(finished: dict[str, Path]) -> None:
    for row in _rows(finished["ttft"]).values():
        default = row["sides"][DEFAULT]
        assert default["fresh"] <= default["computed"] < default["tokens"]
        assert (default["fresh"] == default["computed"]) == default["exact"]
        stock, whole, modular = (row["sides"][side] for side in ("stock", "whole", "modular"))
        assert stock["tokens"] == whole["tokens"] == modular["tokens"]  # bytes: no border changes a token
        assert 0 < whole["fresh"] == modular["fresh"] < whole["tokens"]
        assert whole["exact"] and not modular["exact"]
        assert whole["modules"] == 0 < modular["modules"]
        for side in (stock, whole, modular):
            assert len(side["ttft_ms"]) == 2 and min(side["ttft_ms"]) > 0
        for side in (whole, modular):
            parts = zip(side["plan_ms"], side["assemble_ms"], side["prefill_ms"], strict=True)
            assert [sum(ms) for ms in parts] == pytest.approx(side["ttft_ms"], rel=0.1)
            assert side["encode_ms"] > 0 and side["stored_bytes"] > 0


def test_whole_is_the_full_prefill_and_modular_is_not(finished: dict[str, Path]) -> None:
    for row in _rows(finished["quality"]).values():
        full, whole, modular, nothing = (row["rows"][name] for name in ("full", "whole", "modular", "no context"))
        assert whole["text"] == full["text"] and whole["score"] == full["score"]
        assert whole["mean_kl"] < 1e-6 and whole["top1"] == 1 and whole["exact"]
        assert whole["nll"] == pytest.approx(full["nll"], abs=1e-4)
        assert full["mean_kl"] == 0 and full["full_nll"] == full["nll"] == nothing["full_nll"]
        assert 1e-3 < modular["mean_kl"] < nothing["mean_kl"] and not modular["exact"]
        assert modular["full_nll"] == pytest.approx(full["nll"], abs=1e-4)  # the same ids: tokens are bytes
        assert {name for name, values in row["rows"].items() if values["score"] is not None} == set(SCORED)
        assert all((values["text"] is None) == (values["score"] is None) for values in row["rows"].values())


def test_any_row_can_be_scored_or_none(place, tmp_path, monkeypatch) -> None:
    for number, scored in enumerate(("[]", "[no context, 'query:0.1']")):
        monkeypatch.setitem(OPTIONS, "quality", f"{{scored: {scored}}}")
        out = tmp_path / str(number)
        assert _run(place, "quality", out) == 0
        for row in _rows(out).values():
            texts = {name for name, values in row["rows"].items() if values["text"] is not None}
            assert texts == ({"no context", "query:0.1"} if number else set())


def test_a_folder_from_before_a_row_was_added_is_refused(finished, place, monkeypatch, capsys) -> None:
    monkeypatch.setattr("eval.suites.quality.ROWS", (*ROWS, ReuseRow("another", "modular")))
    assert _run(place, "quality", finished["quality"]) == 1
    assert f"other rows than anchored, {DEFAULT}, anchored query:0.1, another, full" in capsys.readouterr().err


def test_gaps_are_sorted_and_held_against_none(finished: dict[str, Path]) -> None:
    for row in _rows(finished["gaps"]).values():
        assert list(row["gaps"]) == ["0", "16", "300"]
        none = row["gaps"]["0"]
        assert none["full"]["mean_kl"] == 0 and none["reuse"] == none["reuse_at_its_positions"]
        for gap in ("16", "300"):
            assert row["gaps"][gap]["full"]["mean_kl"] > 1e-3
            assert row["gaps"][gap]["reuse"] != row["gaps"][gap]["reuse_at_its_positions"]


@pytest.mark.parametrize(
    ("suite", "options", "message"),
    [
        ("gaps", "{gaps: [700]}", "leave no room"),
        ("gaps", "{gaps: many}", "gaps is 'many'"),
        ("gaps", "{gaps: [0, -1]}", "gaps is"),
        ("ttft", "{long_limt: 1}", "did you mean 'long_limit'"),
        ("quality", "{gaps: [1]}", "unknown option 'gaps'"),
        ("quality", "{scored: [modulr]}", "some of: full, whole, modular"),
        ("quality", "{scored: whole}", "scored is 'whole'"),
    ],
)
def test_wrong_options_are_told(place, tmp_path, monkeypatch, capsys, suite, options, message) -> None:
    monkeypatch.setitem(OPTIONS, suite, options)
    assert _run(place, suite, tmp_path) == 1
    assert message in capsys.readouterr().err


def test_the_growth_curve_goes_to_the_models_end_by_default(place, tmp_path) -> None:
    data = save_data(tmp_path / "data", {"2wikimqa": [{**WIKI, "context": WIKI["context"] * 30}]})
    out = tmp_path / "out"
    arguments = ["ttft", "--model", str(place / "model"), "--data", data, "--datasets", "2wikimqa"]
    assert main([*arguments, "--repeats", "1", "--warmup", "0", "--out", str(out)]) == 0
    rows = _rows(out)
    assert list(rows) == [f"2wikimqa/0/{length}" for length in ("model", 512, 1024, 2048)]
    tokens = [row["sides"]["whole"]["tokens"] for row in rows.values()]
    assert tokens[1] <= 512 < tokens[2] <= 1024 < tokens[3] == tokens[0] <= 2048 - 32


def test_answers_fit_behind_the_longest_prompt(place, tmp_path) -> None:
    wiki = {**WIKI, "context": WIKI["context"] * 40, "answers": ["x" * 99]}
    data = save_data(tmp_path / "data", {"2wikimqa": [wiki], "lcc": [{**LCC, "context": LCC["context"] * 80}]})
    out = tmp_path / "out"
    arguments = ["quality", "--model", str(place / "model"), "--data", data, "--datasets", "2wikimqa,lcc"]
    assert main([*arguments, "--out", str(out)]) == 0
    for row, room in zip(_rows(out).values(), (32, 64), strict=True):
        assert 2048 - room - 64 < row["rows"]["whole"]["tokens"] <= 2048 - room
        assert row["rows"]["whole"]["mean_kl"] < 1e-5 and row["rows"]["whole"]["text"] == row["rows"]["full"]["text"]


def test_an_empty_gold_answer_leaves_the_score(place, tmp_path, capsys) -> None:
    data = save_data(tmp_path / "data", {"2wikimqa": [{**WIKI, "answers": [""]}]})
    arguments = ["--model", str(place / "model"), "--data", data, "--datasets", "2wikimqa"]
    assert main(["quality", *arguments, "--out", str(tmp_path / "quality")]) == 0
    (row,) = _rows(tmp_path / "quality").values()
    assert row["answer_tokens"] == 0 and "mean_kl" not in row["rows"]["modular"]
    options = tmp_path / "o.yaml"
    options.write_text("options: {gaps: [8]}\n")
    assert main(["gaps", *arguments, "--out", str(tmp_path / "gaps"), "--config", str(options)]) == 1
    assert "2wikimqa/0/model has an empty gold answer" in capsys.readouterr().err
