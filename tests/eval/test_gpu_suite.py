"""`eval/gpu.sh` on the CPU, its steps one by one, and what it does when one of them fails."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from eval.__main__ import main
from eval.config import EvalConfig, build_config
from eval.gpu import bench as bench_module
from eval.gpu import oracle
from eval.gpu.bench import Bench
from eval.gpu.clock import Clock
from eval.gpu.model import byte_tokenizer, random_model
from eval.gpu.settings import Settings
from eval.memory.shapes import known_shapes
from eval.suites import gpu
from promptcache.errors import RequestError

ROOT = Path(__file__).resolve().parents[2]
TINY = ROOT / "eval" / "gpu-tiny.yaml"


def config(**flags: Any) -> EvalConfig:
    return build_config("gpu", TINY, flags)


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_the_script(tmp_path):
    command = ["bash", str(ROOT / "eval" / "gpu.sh"), "--device", "cpu", "--tiny", "--out", str(tmp_path / "out")]
    environment = os.environ | {"PYTHON": sys.executable}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (tmp_path / "out" / "parts.jsonl").read_text().splitlines()]
    parts = {row["part"]: row for row in rows}
    assert list(parts) == [
        "copies",
        *(f"oracle/{place}/{layout}" for place in ("device", "host") for layout in ("reserved", "compact")),
        *(f"ttft/{tokens}/{place}" for tokens in (160, 320, 640) for place in ("device", "host")),
        "batch",
    ]
    assert all(row["passed"] for part, row in parts.items() if part.startswith("oracle/"))
    timed = parts["ttft/640/host"]
    assert (timed["ours"]["fresh"], timed["ours"]["tokens"], len(timed["stock"]["ttft_ms"])) == (8, 648, 2)
    assert parts["batch"]["equal"] == 1
    report = (tmp_path / "out" / "report.md").read_text()
    for said in ("5x to 10x", "1.5x to 3x", "3.79", "one by one, ms", "full prefill"):
        assert said in report
    assert "What is not here" not in report and (tmp_path / "out" / "gpu.png").exists()


def test_no_gpu_and_no_shape_are_told_in_a_line(tmp_path, capsys):
    if not torch.cuda.is_available():
        assert (
            main(["gpu", "--config", str(ROOT / "eval" / "gpu.yaml"), "--model", "tiny", "--out", str(tmp_path)]) == 1
        )
        assert "tiny cannot be made on 'cuda'" in capsys.readouterr().err
    assert main(["gpu", "--out", str(tmp_path / "other")]) == 1
    assert "shapes are llama-2-7b, tiny" in capsys.readouterr().err


def test_the_shape_is_that_of_the_papers_model():
    settings = json.loads((ROOT / "eval" / "gpu" / "llama-2-7b.json").read_text())
    config = AutoConfig.for_model(settings.pop("model_type"), **settings)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    assert sum(tensor.numel() for tensor in model.parameters()) == 6_738_415_616
    shape = next(each for each in known_shapes() if each.name == "Llama 2 7B")
    assert (
        (shape.num_layers, shape.hidden_size, shape.num_kv_heads)
        == (32, 4096, 32)
        == (
            config.num_hidden_layers,
            config.hidden_size,
            config.num_key_value_heads,
        )
    )
    asked = Settings.of(build_config("gpu", ROOT / "eval" / "gpu.yaml", {}))
    assert asked.contexts == (1024, 2048, 4096, 8192, 16384) and (asked.fresh, asked.rows) == (32, 16)
    assert asked.longest <= config.max_position_embeddings


def test_a_random_model_is_the_same_each_time_and_its_text_has_a_token_a_character():
    one, other = (random_model("tiny", "cpu", "float16", 3) for _ in range(2))
    assert torch.equal(one.lm_head.weight, other.lm_head.weight) and one.dtype == torch.float16
    assert one.model.rotary_emb.inv_freq.dtype == torch.float32
    tokenizer = byte_tokenizer()
    text = "Say <unk> & \n\t~"
    assert tokenizer.encode(text.replace("<unk>", "it")) == list(text.replace("<unk>", "it").encode())
    assert tokenizer.decode(list("naïve".encode())) == "naïve"


@pytest.mark.parametrize(
    "options",
    [
        {"minutes": 0},
        {"minutes": True},
        {"contexts": []},
        {"contexts": [1.5]},
        {"oracle": [1, 2]},
        {"batch": {"row": 3}},
        {"batch": 7},
        {"contexts": [4], "modules": 8},
        {"context": [7]},
    ],
)
def test_options_that_are_none(options):
    with pytest.raises(RequestError):
        Settings.of(EvalConfig("gpu", options=options))


def test_a_model_with_too_few_positions():
    with pytest.raises(RequestError, match="positions"):
        Bench(config(), Settings.of(config(options={"contexts": [30_000]})))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_the_check_finds_states_that_are_off(dtype, monkeypatch):
    bench = Bench(config(dtype=dtype), Settings.of(config()))
    assert oracle.check(bench, "device", "reserved")["passed"]
    right = bench_module.loaded

    @contextmanager
    def damaged(engine, schema, layout=None):
        with right(engine, schema, layout) as made:
            for block in engine.store.held().values():
                block.values[0].mul_(2)
            yield made

    monkeypatch.setattr(oracle, "loaded", damaged)
    found = oracle.check(bench, "device", "reserved")
    assert not found["passed"] and found["limit"] < min(found["error"], found["step_error"])


class _Stub:
    """A bench whose steps take no time; `faults` are raised once each."""

    faults: ClassVar[dict[tuple[int, str], BaseException]] = {}

    def __init__(self, config: EvalConfig, settings: Settings) -> None:
        self.settings = settings

    def measure(self, tokens: int, place: str, clock: Clock) -> dict[str, Any]:
        if (tokens, place) in self.faults:
            raise self.faults.pop((tokens, place))
        times = {"ttft_ms": [2.0], "later_ms": [], "plan_ms": [1.0], "assemble_ms": [1.0], "prefill_ms": [1.0]}
        ours = {"fresh": 8, "encode_ms": 1.0, **times}
        stock = {"ttft_ms": [9.0], "later_ms": []}
        row = {"context": tokens, "placement": place, "locked": True, "peak_bytes": 1 << 30}
        return {**row, "ours": ours, "stock": stock}


@pytest.fixture
def stub(monkeypatch) -> type[_Stub]:
    monkeypatch.setattr(gpu, "Bench", _Stub)
    monkeypatch.setattr(gpu.copies, "measure", lambda bench: {"skipped": "no figure"})
    monkeypatch.setattr(gpu.batch, "measure", lambda bench, clock: {"skipped": "no figure"})
    checked = dict.fromkeys(("error", "step_error", "noise", "limit"), 0.0) | {"contrast": 1.0, "tokens": 9}
    monkeypatch.setattr(
        gpu.oracle,
        "check",
        lambda bench, place, layout: {**checked, "placement": place, "layout": layout, "passed": True},
    )
    return _Stub


def test_a_step_that_fails_costs_no_other_and_is_tried_again(stub, tmp_path, capsys):
    stub.faults = {
        (160, "host"): ValueError("a fault\nin two lines"),
        (640, "host"): torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 GiB. Process 1 has"),
    }
    command = ["gpu", "--config", str(TINY), "--out", str(tmp_path)]
    assert main(command) == 1
    assert "ttft/160/host" in capsys.readouterr().err
    report = (tmp_path / "report.md").read_text()
    assert "`ttft/160/host` failed: ValueError: a fault\n" in report and "in two lines" not in report
    assert "`ttft/640/host`: CUDA out of memory\n" in report
    assert "in two lines" in (tmp_path / "failures.log").read_text()
    assert main(command) == 0
    report = (tmp_path / "report.md").read_text()
    assert "failed" not in report and "`ttft/640/host`: CUDA out of memory\n" in report


def test_a_check_that_fails_ends_the_run_with_a_fault(stub, tmp_path, monkeypatch, capsys):
    right = gpu.oracle.check

    def wrong(bench, place, layout):
        return right(bench, place, layout) | {"passed": layout != "compact"}

    monkeypatch.setattr(gpu.oracle, "check", wrong)
    assert main(["gpu", "--config", str(TINY), "--out", str(tmp_path)]) == 1
    assert "oracle/device/compact, oracle/host/compact" in capsys.readouterr().err
    assert "**NO**" in (tmp_path / "report.md").read_text()


def test_when_the_time_is_over_the_rest_is_named_and_done_the_next_time(stub, tmp_path, monkeypatch):
    command = ["gpu", "--config", str(TINY), "--out", str(tmp_path)]
    with monkeypatch.context() as patch:
        patch.setattr(Clock, "allows", lambda self, kind, size: size <= 320)
        assert main(command) == 0
    report = (tmp_path / "report.md").read_text()
    assert "Not reached in the time that was given: `oracle" in report and "`ttft/640/host`" in report
    assert main(command) == 0
    assert "Not reached" not in (tmp_path / "report.md").read_text()


def test_the_clock_foretells_steps():
    now = [0.0]
    clock = Clock(1, lambda: now[0])
    assert clock.allows("ttft", 1000) and clock.left() == 60
    started = clock.left()
    now[0] = 10
    clock.took("ttft", 1000, started)
    assert clock.allows("ttft", 2000) and not clock.allows("ttft", 4000) and clock.allows("ttft", 10)
    now[0] = 50
    assert not clock.allows("ttft", 10) and not clock.allows("batch", 1)
