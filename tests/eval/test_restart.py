"""The restart suite on a tiny model and a tiny schema."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from eval.__main__ import main
from eval.restart_process import Task, arguments, measure
from eval.suites import restart
from tests.eval.tiny_run import save_model


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("restart")
    save_model(folder / "model")
    (folder / "zoo.prompts").mkdir()
    (folder / "zoo.xml").write_text('<schema name="zoo">Animals. <module name="cats">Cats sleep.</module></schema>')
    (folder / "zoo.prompts" / "why.xml").write_text('<prompt schema="zoo"><cats/>Why?</prompt>')
    return folder


def command(place: Path, schema: str) -> list[str]:
    return [
        *("restart", "--model", str(place / "model"), "--data", str(place), "--datasets", schema),
        *("--repeats", "1", "--out", str(place / schema)),
    ]


def test_it_measures_restarts_and_codecs(place, monkeypatch):
    # Eight processes would take half a minute.
    monkeypatch.setattr(restart._Bench, "_process", lambda self, task: measure(task))
    assert main(command(place, "zoo")) == 0
    rows = [json.loads(line) for line in (place / "zoo" / "parts.jsonl").read_text().splitlines()]
    parts = {row["part"]: row for row in rows}
    assert sorted(parts) == sorted(
        f"zoo/{codec}/{what}" for codec in ("none", "bf16", "int8") for what in ("0", "change")
    )
    plain, small = parts["zoo/none/0"], parts["zoo/int8/0"]
    assert plain["encoding"]["encoded_tokens"] == plain["restart"]["stored_tokens"] == 20
    assert plain["restart"]["encoded_tokens"] == 0 and plain["restart"]["computed_tokens"] == 4
    assert small["num_bytes"] < plain["num_bytes"]
    assert parts["zoo/none/change"]["kl"] == parts["zoo/none/change"]["nll_change"] == 0
    assert parts["zoo/int8/change"]["kl"] > 0
    report = (place / "zoo" / "report.md").read_text()
    assert "times faster" in report and "KL, nats a token" in report
    assert not (place / "zoo" / "states").exists()


def test_a_schema_without_prompts(place, capsys):
    assert main(command(place, "farm")) == 1
    assert "no prompt for farm" in capsys.readouterr().err


def test_a_process_prints_its_figures(place, tmp_path):
    files = (str(place / "zoo.xml"), str(place / "zoo.prompts" / "why.xml"))
    task = Task(str(place / "model"), "float32", *files, str(tmp_path), "none", 1)
    done = subprocess.run(arguments(task), capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["encoded_tokens"] == 20
