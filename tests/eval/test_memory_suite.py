"""The `memory` suite: the paper's table by its formula, and accounts of one model's states that must agree."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import FalconConfig, FalconForCausalLM, MptConfig, MptForCausalLM

from eval.__main__ import main
from eval.memory import stored
from eval.memory.codec_bytes import CODEC_BYTES, LayerShape
from eval.memory.shapes import ModelShape, known_shapes
from eval.suites import memory
from tests.eval.tiny_run import save_model
from tests.tiny import tiny_llama

SHAPES = {shape.name: shape for shape in known_shapes()}
OPTIONS = "{tokens: 200, modules: [1, 3]}"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_model(tmp_path_factory.mktemp("tiny") / "model")


@pytest.fixture(scope="module")
def finished(model: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("memory")
    assert _run(model, folder / "run") == 0
    return folder / "run"


def _run(model: str, out: Path, options: str = OPTIONS, *more: str) -> int:
    (out.parent / "memory.yaml").write_text(f"options: {options}\n")
    return main(["memory", "--model", model, "--config", str(out.parent / "memory.yaml"), "--out", str(out), *more])


def _rows(folder: Path) -> dict[str, dict[str, Any]]:
    lines = (folder / "parts.jsonl").read_text(encoding="utf-8").split("\n")[:-1]
    return {row["part"]: row for row in map(json.loads, lines)}


@pytest.mark.parametrize("shape", [shape for shape in SHAPES.values() if shape.paper_mb], ids=lambda shape: shape.name)
def test_the_paper_s_formula_gives_its_table(shape: ModelShape) -> None:
    # It cuts digits off: 0.1875 is 0.18 there.
    assert shape.paper_mb is not None and 0 <= shape.paper_bytes / 2**20 - shape.paper_mb < 0.01


def test_known_models_by_hand() -> None:
    assert SHAPES["Llama 2 70B"].num_bytes == 327_680 and SHAPES["Llama 2 70B"].paper_bytes == 2_621_440
    assert SHAPES["Llama 2 7B"].num_bytes == SHAPES["Llama 2 7B"].paper_bytes == 524_288
    assert SHAPES["Falcon 40B"].kept_bytes == SHAPES["Falcon 40B"].paper_bytes == 16 * SHAPES["Falcon 40B"].num_bytes
    assert SHAPES["BERT base"].num_bytes == 73_728
    assert len(SHAPES) == len(known_shapes()) and all("/" in shape.source for shape in SHAPES.values())


@pytest.mark.parametrize("name", ["Falcon 1B", "Falcon 7B", "Falcon 40B", "MPT 7B", "Llama 3.1 8B"])
def test_transformers_keeps_that_many_heads(name: str) -> None:
    """Small models of the same kind: what is one head in the table is one head here, what is all heads is all."""
    small = {"vocab_size": 9, "hidden_size": 32, "num_hidden_layers": 1}
    model: Any
    if name == "Llama 3.1 8B":
        model, heads, groups = tiny_llama(), 4, 2
        assert SHAPES[name].kept_heads is None and SHAPES[name].num_kv_heads * 4 * 128 == SHAPES[name].hidden_size
    elif name == "MPT 7B":
        model, heads, groups = MptForCausalLM(MptConfig(d_model=32, n_heads=4, n_layers=1, vocab_size=9)), 4, 4
    else:
        kinds: dict[str, dict[str, Any]] = {
            "Falcon 1B": {"multi_query": False, "alibi": True},
            "Falcon 7B": {"multi_query": True},
            "Falcon 40B": {"new_decoder_architecture": True, "num_kv_heads": 2},
        }
        model = FalconForCausalLM(FalconConfig(**small, num_attention_heads=4, **kinds[name]))
        heads, groups = 4, {"Falcon 1B": 4, "Falcon 7B": 1, "Falcon 40B": 2}[name]
    with torch.no_grad():
        kept = model.eval()(torch.tensor([[1, 2, 3]]), use_cache=True).cache.layers[0].keys.shape[1]
    assert kept == (heads if SHAPES[name].kept_heads else groups)


def test_rules_of_codecs_by_hand() -> None:
    layer = LayerShape(num_kv_heads=2, seq_len=65, key_dim=16, value_dim=8, item_bytes=4)
    numbers = 2 * 65 * 24
    assert CODEC_BYTES["none"](layer) == 4 * numbers and CODEC_BYTES["bf16"](layer) == 2 * numbers
    assert CODEC_BYTES["int8"](layer) == numbers + 2 * (2 * 16 * 2 * 4 + 65 * 2 * 4)


def test_accounts_agree_with_the_configuration(finished: Path) -> None:
    rows = _rows(finished)
    assert list(rows) == [f"{codec}/{modules}" for modules in (1, 3) for codec in ("none", "bf16", "int8")]
    for row in rows.values():
        # 2 layers, 2 heads of keys and values of 16 numbers, 4 bytes.
        assert row["tokens"] == 200 and row["config_bytes"] == 200 * 2 * 2 * 2 * 16 * 4 == row["tensor_bytes"]
        assert row["disk_bytes"] > row["disk_tensor_bytes"] == row["codec_bytes"]
    assert rows["none/1"]["codec_bytes"] == 2 * rows["bf16/1"]["codec_bytes"] == rows["none/1"]["tensor_bytes"]
    # Three modules of 67 and 66 tokens have two groups of keys each, one of 200 has four.
    assert rows["int8/3"]["codec_bytes"] - rows["int8/1"]["codec_bytes"] == 2 * (3 * 2 - 4) * 2 * 2 * 16 * 4
    report = (finished / "report.md").read_text(encoding="utf-8")
    assert "something else than its configuration" not in report and "| Falcon 180B" in report and "nan" not in report
    assert (finished / "memory.png").read_bytes().startswith(b"\x89PNG") and not (finished / "states").exists()


def test_half_precision_is_half(model, tmp_path) -> None:
    assert _run(model, tmp_path / "run", "{tokens: 64, modules: [1]}", "--dtype", "bfloat16") == 0
    rows = _rows(tmp_path / "run")
    assert {row["tensor_bytes"] for row in rows.values()} == {64 * 2 * 2 * 2 * 16 * 2}
    assert rows["bf16/1"]["codec_bytes"] == rows["none/1"]["codec_bytes"]


def test_a_second_run_computes_nothing(finished, model, monkeypatch) -> None:
    report = (finished / "report.md").read_bytes()
    monkeypatch.setattr(memory, "load_model", None)
    assert _run(model, finished) == 0 and (finished / "report.md").read_bytes() == report


def test_a_store_that_counts_wrongly_ends_the_run(model, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(stored, "_allocated", lambda blocks: 1)
    assert _run(model, tmp_path / "run") == 1
    assert "allocated_bytes 1" in capsys.readouterr().err and not (tmp_path / "run" / "parts.jsonl").exists()
    assert not (tmp_path / "run" / "states").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("{token: 5}", "did you mean 'tokens'"),
        ("{tokens: 2, modules: [3]}", "3 modules of 2 tokens"),
        ("{tokens: many}", "whole numbers"),
        ("{tokens: 30, modules: [30]}", "cannot all differ"),
        ("{tokens: 5000}", "2048"),
    ],
)
def test_wrong_options_are_told(model, tmp_path, capsys, options, message) -> None:
    assert _run(model, tmp_path / "run", options) == 1
    assert message in capsys.readouterr().err


def test_a_model_that_keeps_more_than_it_says_is_told(tmp_path) -> None:
    from tests.tiny import byte_tokenizer

    config = FalconConfig(
        vocab_size=260,
        hidden_size=64,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_kv_heads=2,
        new_decoder_architecture=True,
        eos_token_id=None,
    )
    FalconForCausalLM(config).save_pretrained(tmp_path / "model")
    byte_tokenizer().save_pretrained(tmp_path / "model")
    assert _run(str(tmp_path / "model"), tmp_path / "run", "{tokens: 30, modules: [1]}") == 0
    report = (tmp_path / "run" / "report.md").read_text(encoding="utf-8")
    assert "something else than its configuration" in report
