"""The `usecases` suite from its command line, on a tiny model and the project's own schemas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eval.__main__ import main
from eval.paper import PAPER_USE_CASES
from eval.reports.usecases import write_report
from eval.results import RunFolder
from eval.rows import REPAIRS
from eval.stock_model import StockModel
from eval.suites import usecases
from promptcache import PromptCache
from promptcache.config import DEFAULT_REPAIR
from tests.tiny import tiny_llama
from tests.tokenizers import published

SCHEMAS = Path(__file__).resolve().parents[2] / "schemas"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("tiny") / "model"
    # The schemas' parameters count words, not bytes.
    tokenizer = published("smollm2")
    tokenizer.save_pretrained(folder)
    tiny_llama(vocab_size=len(tokenizer), max_position_embeddings=16_000).save_pretrained(folder)
    return str(folder)


def _run(model: str, out: Path, *more: str) -> int:
    limits = ("--limit", "1", "--repeats", "2")
    return main(["usecases", "--model", model, "--data", str(SCHEMAS), *limits, "--out", str(out), *more])


@pytest.fixture(scope="module")
def finished(model: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("usecases") / "run"
    assert _run(model, folder) == 0
    return folder


def _rows(folder: Path) -> dict[str, dict[str, Any]]:
    lines = (folder / "parts.jsonl").read_text(encoding="utf-8").split("\n")[:-1]
    return {row["part"]: row for row in map(json.loads, lines)}


def test_every_use_case_of_the_paper_has_a_schema(finished: Path) -> None:
    rows = _rows(finished)
    assert list(rows) == list(PAPER_USE_CASES) == list(usecases._CASES)
    modules = {"code": 5, "personalisation": 6, "parameters": 2}
    for name, row in rows.items():
        assert row["default"] == DEFAULT_REPAIR and row["encode_ms"] > 0 and len(row["prompts"]) == 1
        for prompt in row["prompts"].values():
            stock, none = prompt["stock"], prompt["ours"]["none"]
            assert list(prompt["ours"]) == ["none", *REPAIRS] and REPAIRS[0] == DEFAULT_REPAIR
            assert stock["tokens"] == none["tokens"] > none["fresh"] == none["computed"] > 0
            assert none["modules"] >= modules[name] and (prompt["gaps"] > 0) == (name != "code")
            assert none["computed"] < prompt["ours"][DEFAULT_REPAIR]["computed"] < none["tokens"]
            for side in (stock, *prompt["ours"].values()):
                assert len(side["ttft_ms"]) == 2 and min(side["ttft_ms"]) > 0
    report = (finished / "report.md").read_text(encoding="utf-8")
    assert "75,976.0" in report and "88.2" in report and "Models, machines and prompts differ" in report
    assert "nan" not in report and (finished / "usecases.png").read_bytes().startswith(b"\x89PNG")


def test_a_second_run_computes_nothing(finished, model, monkeypatch) -> None:
    report = (finished / "report.md").read_bytes()
    monkeypatch.setattr(PromptCache, "from_pretrained", None)
    assert _run(model, finished) == 0 and (finished / "report.md").read_bytes() == report


def test_a_killed_run_goes_on_where_it_was(model, tmp_path, monkeypatch) -> None:
    measure, opened = usecases._Bench.measure, []

    def killed(self, schema, prompts):
        opened.append(self.engine)
        if len(opened) == 2:
            raise KeyboardInterrupt
        return measure(self, schema, prompts)

    monkeypatch.setattr(usecases._Bench, "measure", killed)
    assert _run(model, tmp_path / "run") == 130 and list(_rows(tmp_path / "run")) == ["code"]
    assert _run(model, tmp_path / "run") == 0
    assert list(_rows(tmp_path / "run")) == list(PAPER_USE_CASES)
    assert all(not engine.schemas and len(engine.store) == 0 for engine in opened)


def test_a_side_that_computes_something_else_ends_the_run(model, tmp_path, monkeypatch, capsys) -> None:
    prefill, stream = StockModel.prefill, PromptCache.stream
    with monkeypatch.context() as patch:
        patch.setattr(StockModel, "prefill", lambda self, ids, *_: prefill(self, ids[1:]))
        assert _run(model, tmp_path / "warm") == 1
    assert "stock prefill: passes of" in capsys.readouterr().err
    monkeypatch.setattr(PromptCache, "stream", lambda self, *a, **more: stream(self, *a, **{**more, "reuse": False}))
    assert _run(model, tmp_path / "cold") == 1
    assert "reuse: passes of" in capsys.readouterr().err and not (tmp_path / "cold" / "parts.jsonl").exists()


def test_what_cannot_be_measured_is_told(model, tmp_path, capsys) -> None:
    (tmp_path / "repair.yaml").write_text("options: {repair: [none]}\n")
    (tmp_path / "unknown.yaml").write_text("options: {repairs: [lynk]}\n")
    (tmp_path / "text.yaml").write_text("options: {repairs: none}\n")
    for name, message in (("repair", "did you mean 'repairs'"), ("unknown", "lynk"), ("text", "list of repair")):
        assert _run(model, tmp_path / name, "--config", str(tmp_path / f"{name}.yaml")) == 1
        assert message in capsys.readouterr().err
    assert _run(model, tmp_path / "none", "--data", str(tmp_path)) == 1
    assert "--data" in capsys.readouterr().err


def _figures(ttft: list[float], **more: Any) -> dict[str, Any]:
    parts = {"plan_ms": [1.0], "assemble_ms": [2.0], "prefill_ms": [3.0], "later_ms": []}
    return {"tokens": 100, "fresh": 10, "computed": 10, "modules": 2, "exact": False, "ttft_ms": ttft, **parts, **more}


def test_ratios_are_those_of_one_repeat(tmp_path: Path) -> None:
    def row(name: str) -> dict[str, Any]:
        ways = {"none": _figures([10.0, 20.0, 40.0]), "link:8": _figures([50.0, 50.0, 50.0], computed=26)}
        stock = {"tokens": 100, "ttft_ms": [100.0, 400.0, 200.0], "later_ms": [7.0]}
        prompt = {"gaps": 3, "stock": stock, "ours": ways}
        whole = {
            "part": name,
            "session": 0,
            "schema": name,
            "default": "none",
            "stored_tokens": 300,
            "encode_ms": 900.0,
        }
        return {**whole, "stored_bytes": 2**20, "prompts": {"one": prompt}}

    from eval.config import EvalConfig

    write_report(RunFolder(tmp_path, EvalConfig("usecases")), [row(name) for name in PAPER_USE_CASES])
    lines = (tmp_path / "report.md").read_text(encoding="utf-8").split("\n")
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    (code,) = [line for line in cells if line[:1] == ["code"] and len(line) == 16]
    # Ratios 10, 20 and 5 in three repeats: 10, and not 200 / 20. 900 / 180 is five requests to be even, so six to gain.
    assert code[2:10] == ["1", "2", "100", "90", "10", "200.0", "20.0", "10.0"]
    assert code[10:] == ["300", "1.0", "900.0", "6", "7.0", "-"]
    assert ["code", "link:8", "26", "50.0", "4.0"] in cells
    assert ["schema `code`", "here", "200.0", "20.0", "10.0"] in cells
