"""Which records a run takes, and how they are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from eval.config import EvalConfig
from eval.longbench.sample import choose_samples
from eval.options import check_options
from promptcache.errors import RequestError
from tests.eval.tiny_run import LCC, WIKI, save_data


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    wiki = [{**WIKI, "context": "x" * length} for length in (5, 9, 2, 9, 7)]
    return Path(save_data(tmp_path_factory.mktemp("data"), {"2wikimqa": wiki, "lcc": [LCC, LCC]}))


def _parts(data: Path, **settings) -> list[str]:
    config = EvalConfig("test", data=data, **{"datasets": ("2wikimqa", "lcc"), **settings})
    return [sample.part for sample in choose_samples(config)]


def test_the_first_records_of_each_dataset(data: Path) -> None:
    assert _parts(data, limit=1) == ["2wikimqa/0/model", "lcc/0/model"]
    assert _parts(data, max_length=64, datasets=("lcc",)) == ["lcc/0/64", "lcc/1/64"]
    assert len(_parts(data)) == 7


def test_the_longest_again_for_the_papers_datasets(data: Path) -> None:
    options = {"long_max_length": 99, "long_limit": 3}
    assert _parts(data, limit=1, max_length=64, options=options) == [
        "2wikimqa/0/64",
        "lcc/0/64",
        "2wikimqa/1/99",
        "2wikimqa/3/99",
        "2wikimqa/4/99",
    ]
    assert len(_parts(data, max_length=99, options=options)) == 7


def test_the_suites_own_datasets_are_the_default(data: Path) -> None:
    samples = choose_samples(EvalConfig("test", data=data), ("lcc",))
    assert {sample.task.name for sample in samples} == {"lcc"}


@pytest.mark.parametrize("options", [{"long_max_length": 0}, {"long_max_length": "9"}, {"long_limit": True}])
def test_wrong_options(data: Path, options) -> None:
    with pytest.raises(RequestError, match="long_"):
        _parts(data, options=options)


def test_a_dataset_file_without_records(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="no records"):
        _parts(Path(save_data(tmp_path, {"lcc": []})), datasets=("lcc",))


def test_an_unknown_option_is_named() -> None:
    check_options(EvalConfig("ttft", options={"gaps": []}), ("gaps",))
    with pytest.raises(RequestError, match="unknown option 'long_limt'") as caught:
        check_options(EvalConfig("ttft", options={"long_limt": 1}), ("long_limit",))
    assert "did you mean 'long_limit'" in str(caught.value)
    with pytest.raises(RequestError, match="unknown option"):
        check_options(EvalConfig("ttft", options={"x": 1}), ())
