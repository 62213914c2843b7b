"""A run's folder survives being killed, and says when it is another run's."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from eval.config import EvalConfig
from eval.progress import work_through
from eval.results import RunFolder
from promptcache.errors import RequestError

CONFIG = EvalConfig("test", limit=3, options={"since": 1})


def test_what_is_added_is_there_when_opened_again(tmp_path: Path) -> None:
    first = RunFolder(tmp_path, CONFIG)
    first.add("a", {"ms": 1.5, "text": "é\n\u2028"})
    first.add("b", {"ms": 2})
    again = RunFolder(tmp_path, CONFIG)
    assert [(row["part"], row["ms"], row["session"]) for row in again.rows()] == [("a", 1.5, 0), ("b", 2, 0)]
    assert next(again.rows())["text"] == "é\n\u2028"
    assert again.pending(["b", "c", "a", "d"]) == ["c", "d"]
    assert again.session == 1 and len(again.sessions()) == 2
    assert {"cpu", "threads", "versions", "commit", "started"} < set(again.sessions()[0])


@pytest.mark.parametrize("tail", [b'{"part": "c", "ms"', b'{"part": "c"}', b"{", b"\xff\xfe"])
def test_half_a_last_line_is_dropped_and_the_part_computed_again(tmp_path: Path, tail: bytes) -> None:
    RunFolder(tmp_path, CONFIG).add("a", {})
    file = tmp_path / "parts.jsonl"
    whole = file.read_bytes()
    file.write_bytes(whole + tail)
    again = RunFolder(tmp_path, CONFIG)
    assert again.pending(["a", "c"]) == ["c"] and file.read_bytes() == whole
    again.add("c", {"ms": 1})
    assert [row["part"] for row in RunFolder(tmp_path, CONFIG).rows()] == ["a", "c"]


def test_a_broken_line_inside_is_named(tmp_path: Path) -> None:
    RunFolder(tmp_path, CONFIG).add("a", {})
    file = tmp_path / "parts.jsonl"
    file.write_bytes(b"not json\n" + file.read_bytes())
    with pytest.raises(RequestError, match="not JSON") as caught:
        RunFolder(tmp_path, CONFIG)
    assert (caught.value.file, caught.value.line) == (str(file), 1)


def test_another_configuration_is_refused(tmp_path: Path) -> None:
    RunFolder(tmp_path, CONFIG)
    RunFolder(tmp_path, EvalConfig("test", limit=3, options={"since": 1}, out=tmp_path))
    with pytest.raises(RequestError, match="other settings: limit, options"):
        RunFolder(tmp_path, EvalConfig("test", limit=4))
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(RequestError, match="not JSON"):
        RunFolder(tmp_path, CONFIG)


def test_a_folder_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RequestError, match="cannot be a results folder"):
        RunFolder(tmp_path / "file", CONFIG)


def test_a_part_is_finished_once_and_its_figures_are_numbers(tmp_path: Path) -> None:
    results = RunFolder(tmp_path, CONFIG)
    results.add("a", {})
    with pytest.raises(AssertionError):
        results.add("a", {})
    with pytest.raises(ValueError):
        results.add("b", {"kl": math.nan})
    assert "b" not in results and len((tmp_path / "parts.jsonl").read_text().splitlines()) == 1


def test_work_goes_through_what_is_not_finished(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = RunFolder(tmp_path, CONFIG)
    results.add("b", {})
    done = []
    for part in work_through(results, ["a", "b", "c"], "test"):
        results.add(part, {})
        done.append(part)
    assert done == ["a", "c"]
    assert list(work_through(results, ["a", "b", "c"], "test")) == []
    assert capsys.readouterr().out == ""


def test_options_that_json_does_not_know_compare_equal(tmp_path: Path) -> None:
    config = EvalConfig("test", options={1: Path("x")})  # type: ignore[dict-item]
    RunFolder(tmp_path, config)
    assert RunFolder(tmp_path, config).session == 1
    assert json.loads((tmp_path / "config.json").read_text())["options"] == {"1": "x"}
