"""The rule about skips in CI, tried on a project made for it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

TESTS = """
import pytest

@pytest.mark.model
def test_model():
    pytest.skip("the default model is not here")

def test_data():
    pytest.skip("../shared/data lacks a file")

def test_other():
    pytest.skip("not on this platform")

@pytest.mark.model
@pytest.mark.xfail
def test_expected():
    assert False
"""
WHOLE_FILE = """
import pytest

pytest.skip("../shared/data is not there", allow_module_level=True)
"""
SETTINGS = """
[pytest]
markers =
    model: x
    gpu: x
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> Path:
    tests = pytester.mkdir("project") / "tests"
    tests.mkdir()
    shutil.copy(Path(__file__).with_name("conftest.py"), tests)
    (tests / "test_one.py").write_text(TESTS)
    (tests / "test_two.py").write_text(WHOLE_FILE)
    (tests.parent / "pytest.ini").write_text(SETTINGS)
    return tests.parent


@pytest.mark.parametrize(
    ("ci", "data", "expected"),
    [
        ("", True, {"skipped": 4, "xfailed": 1}),
        ("true", False, {"failed": 1, "skipped": 3, "xfailed": 1}),
        ("true", True, {"failed": 2, "skipped": 1, "xfailed": 1, "errors": 1}),
    ],
)
def test_skips_in_ci(
    ci: str,
    data: bool,
    expected: dict[str, int],
    project: Path,
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CI", ci)
    if data:
        (project.parent / "shared").mkdir()
    outcome = pytester.runpytest_inprocess("--rootdir", project, "--continue-on-collection-errors", project)
    assert outcome.parseoutcomes() == expected
