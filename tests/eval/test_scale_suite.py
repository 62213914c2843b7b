"""The `scale` suite from its command line, on a tiny model."""

from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from eval.__main__ import main
from eval.config import EvalConfig
from eval.reports.scale import write_report
from eval.results import RunFolder
from eval.scale import batch_sides
from eval.scale.grid import Grid
from eval.scale.live import LiveBytes, live_bytes
from eval.stock_model import StockModel
from promptcache import PromptCache
from tests.eval.tiny_run import save_model

OPTIONS = (
    "{tokens: [40, 5000, most], modules: [1, 3], total: 60, each: 12, rows: [1, 5], context: 300, fresh: 6, rounds: 2}"
)
PARTS = [
    *("tokens/40", "tokens/5000", "tokens/most", "modules/total", "modules/each/1", "modules/each/3"),
    *("batch/1", "batch/5"),
]
TOKEN_BYTES = 2 * 2 * 2 * 16 * 4


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_model(tmp_path_factory.mktemp("tiny") / "model")


@pytest.fixture(scope="module")
def finished(model: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scale") / "run"
    assert _run(model, folder) == 0
    return folder


def _run(model: str, out: Path, options: str = OPTIONS, *more: str) -> int:
    (out.parent / "scale.yaml").write_text(f"options: {options}\n")
    arguments = ["--model", model, "--config", str(out.parent / "scale.yaml"), "--repeats", "1", "--out", str(out)]
    return main(["scale", *arguments, *more])


def _rows(folder: Path) -> dict[str, dict[str, Any]]:
    lines = (folder / "parts.jsonl").read_text(encoding="utf-8").split("\n")[:-1]
    return {row["part"]: row for row in map(json.loads, lines)}


def test_a_context_grows_to_the_model_s_end(finished: Path) -> None:
    rows = _rows(finished)
    assert list(rows) == PARTS
    assert "do not fit the model's 2048 positions" in rows["tokens/5000"]["skipped"]["tokens/5000"]
    # Six new tokens, the first token of the answer, and eight later ones.
    assert rows["tokens/most"]["context"] == 2048 - 6 - 1 - 8 and rows["tokens/40"]["context"] == 40
    for name in ("tokens/40", "tokens/most"):
        row = rows[name]
        assert row["fresh"] == [6] and list(row["sides"]) == ["floor", "kernel", "stock"]
        assert len(row["sides"]["stock"]["ttft_ms"]) == 1 and len(row["sides"]["floor"]["ttft_ms"]) == 2
        (ours,) = row["ours"]
        assert ours["exact"] and ours["stored_bytes"] == row["context"] * TOKEN_BYTES and None not in ours["later_ms"]


def test_modules_become_more_in_both_layouts(finished: Path) -> None:
    rows = _rows(finished)
    held = [(ours["modules"], ours["layout"], ours["context"]) for ours in rows["modules/total"]["ours"]]
    assert held == [(count, layout, 60) for layout in ("reserved", "compact") for count in (1, 3)]
    for count in (1, 3):
        row = rows[f"modules/each/{count}"]
        held = [(ours["modules"], ours["layout"], ours["context"]) for ours in row["ours"]]
        assert held == [(count, layout, 12 * count) for layout in ("reserved", "compact")]
        assert list(row["sides"]) == ["floor", "kernel"]


def test_a_batch_answers_as_one_by_one_and_holds_one_copy(finished: Path) -> None:
    rows = _rows(finished)
    for count in (1, 5):
        row = rows[f"batch/{count}"]
        assert row["rows"] == count and row["context"] == 300 and row["alike"] == row["asked"] == 2 * count
        for side in ("batch", "solo", "floor"):
            assert len(row[side]["prefill_ms"]) == 2 and min(row[side]["prefill_ms"]) > 0
        assert len(row["stock"]["ttft_ms"]) == 1 and min(row["batch"]["later_ms"]) > 0
        memory = row["memory"]
        assert memory["copy_bytes"] == 300 * TOKEN_BYTES
        # Each row has its question and all tokens of its answer but the last.
        assert memory["tail_bytes"] == count * (6 + 8) * TOKEN_BYTES
        # Less than one more copy of the context, for five rows as well.
        assert 0 < memory["held_bytes"] < memory["copy_bytes"]


def test_the_report(finished: Path) -> None:
    report = (finished / "report.md").read_text(encoding="utf-8")
    assert "- tokens/5000: a context of 5000 tokens" in report and "10 of 10" in report and "nan" not in report
    assert "LongBench" not in report
    for picture in ("tokens", "modules", "batch"):
        assert (finished / f"{picture}.png").read_bytes().startswith(b"\x89PNG")


def test_a_second_run_computes_nothing(finished, model, monkeypatch) -> None:
    report = (finished / "report.md").read_bytes()
    monkeypatch.setattr(PromptCache, "from_pretrained", None)
    assert _run(model, finished) == 0 and (finished / "report.md").read_bytes() == report


def test_a_killed_run_goes_on_where_it_was_and_states_are_forgotten(model, tmp_path, monkeypatch) -> None:
    engines, made = [], PromptCache.__init__

    def remember(self, *args, **more):
        engines.append(self)
        made(self, *args, **more)

    def killed(self, questions):
        if len(questions) == 3:
            raise KeyboardInterrupt
        return take(self, questions)

    options = "{tokens: [20], modules: [1], total: 20, each: 8, rows: [2, 3], context: 30, fresh: 4, rounds: 1}"
    take = batch_sides.BatchFloor.take
    monkeypatch.setattr(PromptCache, "__init__", remember)
    with monkeypatch.context() as patch:
        patch.setattr(batch_sides.BatchFloor, "take", killed)
        assert _run(model, tmp_path / "run", options) == 130
    parts = ["tokens/20", "modules/total", "modules/each/1", "batch/2", "batch/3"]
    assert list(_rows(tmp_path / "run")) == parts[:-1]
    assert _run(model, tmp_path / "run", options) == 0
    assert list(_rows(tmp_path / "run")) == parts
    assert len(engines) == 2 and all(not engine.schemas and len(engine.store) == 0 for engine in engines)


def _recompute(monkeypatch: pytest.MonkeyPatch) -> str:
    whole = PromptCache.generate_batch
    monkeypatch.setattr(PromptCache, "generate_batch", lambda self, *a, **m: whole(self, *a, **{**m, "reuse": False}))
    return "ours in a batch: passes of [18"


def _one_by_one(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(
        PromptCache, "generate_batch", lambda self, prompts, max_batch, **m: [self.generate(p, **m) for p in prompts]
    )
    return "ours in a batch: passes of [18"


def _cold_floor(monkeypatch: pytest.MonkeyPatch) -> str:
    prefill = StockModel.prefill
    monkeypatch.setattr(StockModel, "prefill", lambda self, ids, *_: prefill(self, (1, *ids)))
    return "stock prefill: passes of [6"


@pytest.mark.parametrize("cheat", [_recompute, _one_by_one, _cold_floor])
def test_a_side_that_computes_something_else_ends_the_run(model, tmp_path, monkeypatch, capsys, cheat) -> None:
    message = cheat(monkeypatch)
    options = "{tokens: [20], modules: [1], total: 20, each: 8, rows: [3], context: 30, fresh: 6, rounds: 1}"
    assert _run(model, tmp_path / "run", options) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run" / "parts.jsonl").exists() or "batch/3" not in _rows(tmp_path / "run")


@pytest.mark.parametrize(
    ("options", "more", "message"),
    [
        ("{row: [1]}", (), "did you mean 'rows'"),
        ("{tokens: most}", (), "tokens is 'most'"),
        ("{tokens: [0]}", (), "whole numbers"),
        ("{fresh: few}", (), "whole numbers"),
        ("{rounds: 1}", ("--device", "cuda"), "runs on the CPU"),
    ],
)
def test_wrong_options_are_told(model, tmp_path, capsys, options, more, message) -> None:
    assert _run(model, tmp_path / "run", options, *more) == 1
    assert message in capsys.readouterr().err


def test_tensors_are_counted_once_with_all_that_lies_behind_them() -> None:
    linear = torch.nn.Linear(2, 2)
    with LiveBytes(linear) as live:
        held = torch.zeros(3000)
        part = held[:10]
        linear(torch.zeros(1, 2))
    assert 12_000 <= live.peak < 12_200 and part.shape == (10,)
    del held
    assert part.untyped_storage().nbytes() == 12_000
    gc.collect()
    before = live_bytes()
    del part
    assert before - live_bytes() == 12_000  # it kept all of it


def test_ratios_by_hand(tmp_path: Path) -> None:
    config = EvalConfig("scale", options={"tokens": [64], "modules": [1], "rows": [4]})
    counts = {"rows": 4, "context": 64, "rounds": 3, "alike": 3, "asked": 4}
    row = {
        **counts,
        "part": "batch/4",
        "session": 0,
        "batch": {"prefill_ms": [100.0, 50.0, 80.0], "later_ms": [2.0, None, 4.0]},
        "solo": {"prefill_ms": [200.0, 200.0, 80.0], "later_ms": [20.0, 10.0, 20.0]},
        "floor": {"prefill_ms": [50.0, 50.0, 50.0]},
        "stock": {"ttft_ms": [900.0]},
        "memory": {"copy_bytes": 10 << 20, "held_bytes": 3 << 20, "tail_bytes": 2 << 20},
        "skipped": {},
    }
    write_report(RunFolder(tmp_path, config), Grid.of(config), [row])
    lines = (tmp_path / "report.md").read_text(encoding="utf-8").split("\n")
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    times, memory = [line for line in cells if line[:1] == ["4"]]
    assert times[1:7] == ["80.00", "200.00", "2.00", "20.00", "50.00", "1.60"]
    assert times[7:] == ["900.00", "3.00", "20.00", "7.50", "3 of 4"]
    assert memory[1:] == ["10.00", "2.00", "3.00", "1.08", "42.00"]
