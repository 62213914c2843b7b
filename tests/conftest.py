"""What every test may rely on: no network, the default model, the shared data, and skips that CI does not forgive."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

# Before transformers is imported, by whatever test comes first.
os.environ["HF_HUB_OFFLINE"] = "1"
# Tiny models are slower with more threads than one, and much slower on a machine that has other work.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# What a test stores is gone with its engine, unless it names a folder.
os.environ["PROMPTCACHE_STORE"] = "off"

if TYPE_CHECKING:
    from promptcache.models.loading import LoadedModel

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder `../shared/data` beside the project."""
    data = SHARED / "data"
    if not data.is_dir():
        pytest.skip("the folder ../shared/data is not there")
    return data


@pytest.fixture(scope="session")
def real_engine_model() -> LoadedModel:
    """The default model and its tokenizer, loaded once. For tests marked `model`."""
    from promptcache.errors import ModelNotFoundError
    from promptcache.models.loading import load_model

    try:
        return load_model()
    except ModelNotFoundError as fault:
        pytest.skip(f"the default model is not here: {fault}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests marked `gpu` run where there is one."""
    if not any(item.get_closest_marker("gpu") for item in items):
        return
    import torch

    if not torch.cuda.is_available():
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason="there is no CUDA device"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """In CI a skipped `model` test is a failure, and so is one skipped for data that is there."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail"):
        _refuse_skip(report, is_model=item.get_closest_marker("model") is not None)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, Any, Any]:
    """The same for files that are skipped as a whole."""
    report = yield
    if report.skipped:
        _refuse_skip(report, is_model=False)
    return report


def _refuse_skip(report: Any, *, is_model: bool) -> None:
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    if os.environ.get("CI") == "true" and (is_model or ("shared" in reason and SHARED.is_dir())):
        report.outcome = "failed"
        report.longrepr = f"skipped, which CI takes for a failure: {reason}"


@pytest.fixture
def threads(request: pytest.FixtureRequest) -> Iterator[None]:
    """torch with as many threads as the test's parameter says, whatever the machine has."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield
    torch.set_num_threads(before)
