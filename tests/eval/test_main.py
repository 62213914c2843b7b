"""`python -m eval`, with a suite made for the test."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from eval.__main__ import main
from eval.config import EvalConfig
from eval.registry import SUITES
from eval.results import RunFolder
from promptcache.errors import RequestError


class _Counting(ModuleType):
    """Three parts; `fail` is raised in place of the second one."""

    def __init__(self) -> None:
        super().__init__("counting_suite")
        self.computed: list[str] = []
        self.fail: BaseException | None = None
        self.config: EvalConfig | None = None

    def run(self, config: EvalConfig, results: RunFolder) -> None:
        self.config = config
        for part in results.pending(["a", "b", "c"]):
            if part == "b" and self.fail is not None:
                raise self.fail
            self.computed.append(part)
            results.add(part, {})
        results.write_report(", ".join(row["part"] for row in results.rows()))


@pytest.fixture
def suite(monkeypatch: pytest.MonkeyPatch) -> _Counting:
    module = _Counting()
    monkeypatch.setitem(sys.modules, "counting_suite", module)
    monkeypatch.setitem(SUITES, "counting", "counting_suite")
    return module


def test_a_second_run_computes_nothing(suite: _Counting, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert main(["counting", "--out", str(out), "--limit", "2"]) == 0
    assert suite.computed == ["a", "b", "c"] and (out / "report.md").read_text() == "a, b, c"
    assert main(["counting", "--out", str(out), "--limit", "2"]) == 0
    assert suite.computed == ["a", "b", "c"]


def test_a_killed_run_goes_on_where_it_was(suite: _Counting, tmp_path: Path) -> None:
    arguments = ["counting", "--out", str(tmp_path)]
    suite.fail = KeyboardInterrupt()
    assert main(arguments) == 130
    suite.fail = MemoryError()
    with pytest.raises(MemoryError):
        main(arguments)
    suite.fail = None
    assert main(arguments) == 0
    assert suite.computed == ["a", "b", "c"]


def test_the_default_folder_is_found_again(suite: _Counting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert main(["counting", "--datasets", "trec,lcc", "--max-length", "512"]) == 0
    assert suite.computed == ["a", "b", "c"]
    assert suite.config is not None and suite.config.datasets == ("trec", "lcc") and suite.config.max_length == 512
    assert [folder.name.split("-")[0] for folder in (tmp_path / "results").iterdir()] == ["counting"]


def test_faults_are_told_in_a_line_and_end_with_1(
    suite: _Counting, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suite.fail = RequestError("no such data", hint="look elsewhere")
    assert main(["counting", "--out", str(tmp_path)]) == 1
    assert main(["countin", "--out", str(tmp_path)]) == 1
    assert main(["counting", "--limit", "0"]) == 1
    captured = capsys.readouterr()
    assert "no such data" in captured.err and "did you mean 'counting'" in captured.err and "limit is 0" in captured.err
    assert captured.out == ""


def test_wrong_usage_ends_with_2() -> None:
    with pytest.raises(SystemExit) as caught:
        main(["counting", "--limit", "few"])
    assert caught.value.code == 2


def test_listing_suites_imports_none_of_them() -> None:
    code = "import sys, eval.__main__; print([m for m in sys.modules if m.startswith('eval.suites.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
