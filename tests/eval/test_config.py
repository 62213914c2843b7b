"""Settings: defaults, then YAML, then flags."""

from __future__ import annotations

from pathlib import Path

import pytest

from eval.config import EvalConfig, build_config
from promptcache.errors import RequestError


def _yaml(folder: Path, text: str) -> Path:
    file = folder / "run.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def test_flags_win_over_the_file_and_the_file_over_defaults(tmp_path: Path) -> None:
    file = _yaml(tmp_path, "model: other\nlimit: 3\ndatasets: [trec, lcc]\noptions: {gaps: [0, 64]}\n")
    config = build_config("ttft", file, {"limit": 5, "device": None, "data": "somewhere"})
    assert (config.model, config.limit, config.datasets, config.device) == ("other", 5, ("trec", "lcc"), "cpu")
    assert config.data == Path("somewhere") and config.options == {"gaps": [0, 64]}


def test_datasets_are_a_list_or_separated_by_commas() -> None:
    assert build_config("ttft", None, {"datasets": " trec, lcc,,trec"}).datasets == ("trec", "lcc")


def test_an_empty_file_says_nothing(tmp_path: Path) -> None:
    assert build_config("ttft", _yaml(tmp_path, "# nothing\n"), {}) == EvalConfig("ttft")
    assert build_config("ttft", _yaml(tmp_path, "limit:\n"), {}) == EvalConfig("ttft")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("limt: 3", "unknown setting 'limt'"),
        ("suite: ttft", "unknown setting 'suite'"),
        ("limit: many", "limit is 'many'"),
        ("limit: 0", "limit is 0"),
        ("limit: true", "limit is True"),
        ("repeats: 0", "repeats is 0"),
        ("model: 7", "model is 7"),
        ("truncate: middle", "truncate is 'middle'"),
        ("- a", "holds no settings"),
        ("a: [", "is not YAML"),
        ("!!python/object/apply:os.system ['true']", "is not YAML"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(RequestError, match=message.replace("[", r"\[")):
        build_config("ttft", _yaml(tmp_path, text), {})


def test_a_missing_file_and_a_near_miss(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="cannot be read"):
        build_config("ttft", tmp_path / "absent.yaml", {})
    with pytest.raises(RequestError) as caught:
        build_config("ttft", _yaml(tmp_path, "limt: 3"), {})
    assert "did you mean 'limit'" in str(caught.value.hint)


def test_the_folder_follows_what_decides_the_results() -> None:
    config = EvalConfig("ttft", limit=3)
    assert config.folder == EvalConfig("ttft", limit=3).folder
    assert config.folder != EvalConfig("ttft", limit=4).folder
    assert config.digest == EvalConfig("ttft", limit=3, out=Path("x")).digest
    assert EvalConfig("ttft", out=Path("x")).folder == Path("x")
