"""The `floor` suite from its command line, on a tiny model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eval.__main__ import main
from eval.config import EvalConfig
from eval.floor import stock_sides
from eval.floor.bench import Bench
from eval.floor.grid import Variant
from eval.stock_model import StockModel
from promptcache import PromptCache
from promptcache.layout.policies import policy as policies
from tests.eval.tiny_run import save_model

OPTIONS = "{contexts: [40, 96], fresh: [1, 6], modules: [1, 3], rounds: 2, layouts: [reserved, compact, unheard]}"
PARTS = ["40/6", "96/1", "96/6"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_model(tmp_path_factory.mktemp("tiny") / "model")


@pytest.fixture(scope="module")
def finished(model: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("floor")
    assert _run(model, folder) == 0
    return folder


def _run(model: str, out: Path, options: str = OPTIONS, *more: str) -> int:
    (out.parent / "floor.yaml").write_text(f"options: {options}\n")
    arguments = ["--model", model, "--config", str(out.parent / "floor.yaml"), "--repeats", "2", "--out", str(out)]
    return main(["floor", *arguments, *more])


def _rows(folder: Path) -> dict[str, dict[str, Any]]:
    lines = (folder / "parts.jsonl").read_text(encoding="utf-8").split("\n")[:-1]
    return {row["part"]: row for row in map(json.loads, lines)}


def test_every_setting_is_measured_and_counted(finished: Path) -> None:
    rows = _rows(finished)
    assert list(rows) == PARTS
    for part, row in rows.items():
        context, fresh = map(int, part.split("/"))
        assert (row["context"], row["fresh"], row["rounds"]) == (context, [fresh], 2)
        assert list(row["sides"]) == ["stock", "floor", "kernel", "deepcopy", "crop"]
        assert len(row["sides"]["stock"]["ttft_ms"]) == 2
        for side in ("floor", "kernel", "deepcopy", "crop"):
            assert len(row["sides"][side]["ttft_ms"]) == 4 and min(row["sides"][side]["ttft_ms"]) > 0
        firsts = row["sides"]["crop"]["first_tokens"]
        assert firsts == row["sides"]["deepcopy"]["first_tokens"] and len(firsts) == 4
        for ours in row["ours"]:
            assert ours["context"] == context and ours["exact"] == (ours["modules"] == 1)
            parts = [ours[name] for name in ("plan_ms", "assemble_ms", "prefill_ms", "sample_ms")]
            assert [sum(ms) for ms in zip(*parts, strict=True)] == pytest.approx(ours["ttft_ms"], rel=0.05)
            assert min(map(min, parts)) > 0 and ours["encode_ms"] > 0 and ours["stored_bytes"] > 0
            assert (None in ours["later_ms"]) == (not row["later"])
            if ours["exact"]:
                assert ours["first_tokens"] == firsts
    ways = [f"{ours['modules']} {ours['layout']} {ours['path']}" for ours in rows["96/6"]["ours"]]
    held = [f"{modules} {layout} segments" for layout in ("reserved", "compact") for modules in (1, 3)]
    assert ways == [*held, "1 reserved assembled", "1 reserved prepacked"]


def test_what_is_not_there_is_told(finished: Path) -> None:
    report = (finished / "report.md").read_text(encoding="utf-8")
    assert "- unheard: unknown layout 'unheard'" in report and "None of the settings has an aim" in report
    assert "LongBench" not in report and "torch 2." in report and "nan" not in report
    assert (finished / "floor.png").read_bytes().startswith(b"\x89PNG")


def test_a_second_run_computes_nothing(finished, model, monkeypatch) -> None:
    report = (finished / "report.md").read_bytes()
    monkeypatch.setattr(PromptCache, "from_pretrained", None)
    assert _run(model, finished) == 0
    assert (finished / "report.md").read_bytes() == report


def test_a_killed_run_goes_on_where_it_was(model, tmp_path, monkeypatch) -> None:
    calls, prefill = 0, StockModel.prefill

    def killed(self, *args):
        nonlocal calls
        calls += 1
        if calls == 10:
            raise KeyboardInterrupt
        return prefill(self, *args)

    monkeypatch.setattr(StockModel, "prefill", killed)
    assert _run(model, tmp_path / "run") == 130
    assert list(_rows(tmp_path / "run")) == PARTS[:1]
    assert _run(model, tmp_path / "run") == 0
    assert list(_rows(tmp_path / "run")) == PARTS


def test_states_are_forgotten(model, tmp_path, monkeypatch) -> None:
    engines, made = [], PromptCache.__init__

    def remember(self, *args, **more):
        engines.append(self)
        made(self, *args, **more)

    monkeypatch.setattr(PromptCache, "__init__", remember)
    assert _run(model, tmp_path / "run") == 0
    assert len(engines) == 3 and all(not engine.schemas and len(engine.store) == 0 for engine in engines)


def _recompute(monkeypatch) -> str:
    stream = PromptCache.stream
    monkeypatch.setattr(PromptCache, "stream", lambda self, *a, **more: stream(self, *a, **{**more, "reuse": False}))
    return "ours 1-reserved-default: passes of [6"


def _cold_recipe(monkeypatch) -> str:
    def cold(self, question):
        ids = (*self._context, *question.ids)
        return StockModel(self._model, ()).prefill(ids)

    monkeypatch.setattr(stock_sides.RecipeSide, "_prefill", cold)
    return "deepcopy recipe: passes of [6"


def _warm_stock(monkeypatch) -> str:
    prefill = StockModel.prefill
    monkeypatch.setattr(StockModel, "prefill", lambda self, ids, *_: prefill(self, ids[1:]))
    return "stock prefill: passes of [6"


@pytest.mark.parametrize("cheat", [_recompute, _cold_recipe, _warm_stock])
def test_a_side_that_computes_something_else_ends_the_run(model, tmp_path, monkeypatch, capsys, cheat) -> None:
    message = cheat(monkeypatch)
    assert _run(model, tmp_path / "run") == 1
    assert message in capsys.readouterr().err and not (tmp_path / "run" / "parts.jsonl").exists()


@pytest.mark.parametrize(
    ("options", "more", "message"),
    [
        ("{contexts: [4000]}", (), "do not fit the model's 2048 positions"),
        ("{layouts: [unheard]}", (), "no layout to measure: unknown layout 'unheard'"),
        ("{round: 1}", (), "did you mean 'rounds'"),
        ("{rounds: 1}", ("--device", "cuda"), "runs on the CPU"),
    ],
)
def test_what_cannot_be_measured_is_told(model, tmp_path, capsys, options, more, message) -> None:
    assert _run(model, tmp_path / "run", options, *more) == 1
    assert message in capsys.readouterr().err


def test_a_variant_that_is_refused_leaves_the_others(model, tmp_path, monkeypatch) -> None:
    known = policies.policy
    monkeypatch.setattr("eval.suites.floor.policy", lambda name: known("reserved"))
    assert _run(model, tmp_path / "run") == 0
    row = _rows(tmp_path / "run")["96/6"]
    assert [ours["layout"] for ours in row["ours"]] == [
        "reserved",
        "reserved",
        "compact",
        "compact",
        "reserved",
        "reserved",
    ]
    assert set(row["skipped"]) == {"1-unheard-default", "3-unheard-default"}
    assert "unknown layout 'unheard'" in row["skipped"]["1-unheard-default"]


def test_any_order_is_a_shuffled_one(model) -> None:
    bench = Bench(EvalConfig("floor", model=model))
    with bench.hold(80, [Variant(8, "reserved"), Variant(8, "compact")]) as held:
        in_order, shuffled = held.ours
        assert in_order._imports == [f"part{number}" for number in range(8)]
        assert sorted(shuffled._imports) == in_order._imports != shuffled._imports
        first, second = (side.plan("Why?").token_ids for side in held.ours)
        assert first != second and sorted(first) == sorted(second)
