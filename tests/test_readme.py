"""What the README shows, runs."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from promptcache.pml import bind, parse_prompt, parse_schema

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


@pytest.mark.model
@pytest.mark.parametrize("number", range(len(blocks("python"))))
def test_python(number, tmp_path):
    script = tmp_path / "snippet.py"
    script.write_text(blocks("python")[number], encoding="utf-8")
    done = subprocess.run([sys.executable, script], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not done.stdout or done.stdout.strip()


def test_xml():
    schema, prompt = blocks("xml")
    bound = bind(parse_prompt(prompt), parse_schema(schema))
    assert [item.path for item in bound.imports()] == ["miami", "miami/beaches", "plan"]


@pytest.mark.parametrize("line", [line.split("#")[0].strip() for line in blocks("sh")[0].splitlines()])
def test_make_targets_exist(line):
    assert subprocess.run([*shlex.split(line), "-n"], cwd=ROOT, capture_output=True).returncode == 0


@pytest.mark.model
@pytest.mark.parametrize("line", blocks("sh")[1].splitlines())
def test_commands(line, tmp_path, monkeypatch):
    from promptcache.cli import app

    program, command, *arguments = shlex.split(line)
    assert program == "promptcache"
    if command == "new":
        (tmp_path / "notes").mkdir()
        for name in ("one", "two"):
            (tmp_path / "notes" / f"{name}.txt").write_text(f"Note {name}.\n")
        monkeypatch.chdir(tmp_path)
    else:
        monkeypatch.chdir(ROOT)
        arguments = [str(path) for pattern in arguments for path in (sorted(ROOT.glob(pattern)) or [pattern])]
        if "--store" in arguments:
            arguments[arguments.index("--store") + 1] = str(tmp_path / "states")
    done = CliRunner().invoke(app, [command, *arguments])
    assert done.exit_code == 0, done.output


def test_results_are_filled_in():
    assert "RESULTS" not in README
