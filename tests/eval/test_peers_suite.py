"""The `peers` suite from its command line, with peers that need no library."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from eval.__main__ import main
from eval.peers import registry
from eval.peers.install import needed
from eval.peers.registry import PEERS, PeerKind, default_environment
from promptcache import PromptCache
from promptcache.errors import RequestError
from tests.eval.tiny_run import save_model

OPTIONS = "{contexts: [40, 64], fresh: 6, rounds: 2, peers: [quick, slow, dying, mute, absent, weightless]}"


def _no_weights(model: str, dtype: str, gguf: str | None) -> str:
    raise RequestError(f"there is no GGUF file of {model}")


def _fake(package: str = "fake", weights: Any = lambda model, dtype, gguf: model, **settings: Any) -> PeerKind:
    return PeerKind(package, "tests.eval.fake_peer", weights, settings)


@pytest.fixture(autouse=True)
def fakes(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    made = {
        "quick": _fake(ttft_ms=1e-3),
        "slow": _fake(ttft_ms=1e6),
        "dying": _fake(fail="answer", after=7),
        "mute": _fake(fail="exit"),
        "absent": _fake("nothing"),
        "weightless": _fake(weights=_no_weights),
    }
    for name, kind in made.items():
        monkeypatch.setitem(PEERS, name, kind)
    absent = tmp_path_factory.mktemp("none") / "python"
    monkeypatch.setattr(
        "eval.peers.peer_side.environment_python", lambda name: Path(sys.executable) if name == "fake" else absent
    )


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_model(tmp_path_factory.mktemp("tiny") / "model")


def _run(model: str, out: Path, options: str = OPTIONS) -> int:
    (out.parent / "peers.yaml").write_text(f"options: {options}\n")
    arguments = ["--model", model, "--config", str(out.parent / "peers.yaml"), "--repeats", "2", "--out", str(out)]
    return main(["peers", *arguments])


def _rows(folder: Path) -> dict[str, dict[str, Any]]:
    lines = (folder / "parts.jsonl").read_text(encoding="utf-8").split("\n")[:-1]
    return {row["part"]: row for row in map(json.loads, lines)}


def test_those_that_are_there_are_compared_and_the_others_told(model, tmp_path, monkeypatch, capsys) -> None:
    out = tmp_path / "run"
    assert _run(model, out) == 0
    rows = _rows(out)
    assert list(rows) == ["40", "64"]
    # It gave the first context's answers, warm-up and four, and two of the second's.
    assert list(rows["40"]["sides"]) == ["floor", "deepcopy", "crop", "quick", "slow", "dying"]
    assert list(rows["64"]["sides"]) == ["floor", "deepcopy", "crop", "quick", "slow"]
    for context, row in rows.items():
        assert (row["context"], row["fresh"], row["turns"]) == (int(context), [6], 4)
        assert row["sides"]["quick"]["ttft_ms"] == [1e-3] * 4 and row["sides"]["quick"]["later_ms"] == [2.0] * 4
        assert row["ours"]["first_tokens"] == row["sides"]["crop"]["first_tokens"]
    report = (out / "report.md").read_text(encoding="utf-8")
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in report.split("\n")]
    quick, slow = (next(line for line in cells if line[:1] == [name]) for name in ("quick", "slow"))
    ours = rows["40"]["ours"]["ttft_ms"]
    ratio = float(quick[2].replace(",", ""))
    assert ratio == pytest.approx(sum(sorted(ours)[1:3]) / 2 / 1e-3, rel=0.01) and slow[2] == "0.00"
    assert quick[5] == "7" and quick[6].endswith(" of 4")
    for reason in (
        "dying: ValueError: out of blocks",
        "mute: its process ended: what a library prints",
        "absent: not installed; python -m eval.peers.install nothing does it",
        "weightless: there is no GGUF file",
        "quick: fake 1 in float32, room",
    ):
        assert f"- {reason}" in report
    assert (out / "peers.png").read_bytes().startswith(b"\x89PNG") and (out / "quick.log").exists()
    monkeypatch.setattr(PromptCache, "from_pretrained", None)
    assert _run(model, out) == 0 and (out / "report.md").read_text(encoding="utf-8") == report


def test_with_no_peer_the_recipes_are_left(model, tmp_path) -> None:
    assert _run(model, tmp_path / "run", "{contexts: [40], fresh: 6, rounds: 1, peers: []}") == 0
    assert list(_rows(tmp_path / "run")["40"]["sides"]) == ["floor", "deepcopy", "crop"]


def test_no_process_is_left_behind(model, tmp_path, monkeypatch) -> None:
    found = []
    opened = registry.default_environment

    def remember(kind: PeerKind) -> dict[str, str]:
        return {**opened(kind), "FAKE_PEER_OF": str(tmp_path)}

    monkeypatch.setattr("eval.peers.peer_side.default_environment", remember)
    monkeypatch.setattr("eval.suites.peers._measure", lambda *_: found.extend(_ours(tmp_path)) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        _run(model, tmp_path / "run", "{contexts: [40], fresh: 6, peers: [quick, slow]}")
    assert len(found) == 2 and not _ours(tmp_path)


def _ours(folder: Path) -> list[int]:
    """Processes that carry the mark of this test."""
    mark = f"FAKE_PEER_OF={folder}".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("{peers: [quik]}", "did you mean 'quick'"),
        ("{peers: quick}", "peers is 'quick'"),
        ("{contexts: [3000]}", "do not fit the model's"),
        ("{modules: [1]}", "unknown option 'modules'"),
    ],
)
def test_wrong_options_are_named(model, tmp_path, capsys, options, message) -> None:
    assert _run(model, tmp_path / "run", options) == 1
    assert message in capsys.readouterr().err


def test_variables_that_are_set_win(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PROMPTCACHE_HOME", str(tmp_path))
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    found = default_environment(PEERS["vllm-32"])
    assert found["VLLM_CPU_OMP_THREADS_BIND"] == ",".join(map(str, sorted(os.sched_getaffinity(0))))
    assert "libiomp5" not in found["LD_PRELOAD"]
    library = tmp_path / "peers" / "vllm" / "lib" / "libiomp5.so"
    library.parent.mkdir(parents=True)
    library.touch()
    assert default_environment(PEERS["vllm-32"])["LD_PRELOAD"].split(":")[-1] == str(library)
    monkeypatch.setenv("VLLM_CPU_OMP_THREADS_BIND", "0")
    assert default_environment(PEERS["vllm-32"])["VLLM_CPU_OMP_THREADS_BIND"] == "0"


def test_what_goes_with_another_torch_is_not_installed() -> None:
    asked = [("torch", "torch==2.13.0+cpu"), ("numba", "numba==0.65.0"), ("torchvision", "torchvision")]
    assert needed(asked) == ["numba==0.65.0"]
