"""`promptcache new`: schemas that load, and nothing lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from promptcache.cli.new import module_names
from promptcache.pml import read_prompt, read_schema
from tests.cli.commands import SCHEMA, call


@pytest.fixture
def texts(here: Path) -> Path:
    (here / "docs").mkdir()
    (here / "docs" / "faq.txt").write_text("Q & A <b>\n\n    if x:\n        pass\n", encoding="utf-8")
    (here / "docs" / "naïve plan.py").write_text("x = ']]>'\n", encoding="utf-8")
    return here


def test_linked_and_inline_are_the_same_schema(texts: Path) -> None:
    files = sorted((texts / "docs").iterdir())
    assert call("new", "linked", *files).exit_code == 0
    assert call("new", "inline", *files, "--inline").exit_code == 0
    linked, inline = read_schema(texts / "linked.xml"), read_schema(texts / "inline.xml")
    assert linked.children == inline.children
    assert [path for path, _ in linked.walk_modules()] == ["faq", "na_ve_plan.py"]
    assert 'src="docs/faq.txt"' in (texts / "linked.xml").read_text()


def test_the_example_prompt_works(texts: Path, model_folder: str) -> None:
    result = call("new", "guide", "docs/faq.txt")
    (texts / "ask.xml").write_text(result.stdout)
    assert read_prompt(texts / "ask.xml").schema == "guide"
    assert call("check", "ask.xml", "guide.xml", "--model", model_folder, "--strict").stdout == ""
    assert call("run", "ask.xml", "--model", model_folder, "--max-new-tokens", 1).exit_code == 0


def test_nothing_is_overwritten(texts: Path) -> None:
    result = call("new", "zoo", "docs/faq.txt")
    assert result.exit_code == 1
    assert "zoo.xml is there already" in result.stderr
    assert (texts / "zoo.xml").read_text() == SCHEMA
    assert call("new", "zoo", "docs/faq.txt", "--force").exit_code == 0
    assert (texts / "zoo.xml").read_text() != SCHEMA


def test_a_text_is_not_overwritten_by_its_own_schema(texts: Path) -> None:
    result = call("new", "zoo", "why.xml", "docs/../zoo.xml", "--force")
    assert result.exit_code == 1
    assert "would overwrite one of its own texts" in result.stderr
    assert (texts / "zoo.xml").read_text() == SCHEMA


@pytest.mark.parametrize("turn", ["user", "system", "none"])
def test_turns(turn: str, texts: Path) -> None:
    assert call("new", "guide.xml", "docs/faq.txt", "--turn", turn).exit_code == 0
    assert (f"<{turn}>" in (texts / "guide.xml").read_text()) == (turn != "none")


@pytest.mark.parametrize(
    ("name", "file", "message"),
    [
        ("guide", "nothing.txt", "nothing.txt is no file"),
        ("guide", "docs", "docs is no file"),
        ("docs/guide", "zoo.xml", "--inline"),
        ("2 guides", "docs/faq.txt", "is not a name"),
        ("nowhere/guide", "docs/faq.txt", "nowhere"),
        ("guide", "latin1.txt", "is not UTF-8"),
    ],
)
def test_refusals_write_nothing(name: str, file: str, message: str, texts: Path) -> None:
    (texts / "latin1.txt").write_bytes(b"caf\xe9")
    result = call("new", name, file)
    assert result.exit_code == 1
    assert message in result.stderr
    assert not (texts / f"{name}.xml").exists()


@pytest.mark.parametrize("data", [b"caf\xe9", b"nul \x00", b"escape \x1b"])
def test_what_xml_cannot_carry(data: bytes, texts: Path) -> None:
    (texts / "odd.txt").write_bytes(data)
    assert call("new", "guide", "odd.txt", "--inline").exit_code == 1
    assert not (texts / "guide.xml").exists()


def test_names() -> None:
    files = ["a.txt", "b/a.md", "a-2.txt", "user.txt", "1.txt", "x y?.py", "日本.txt", ".txt", "unit.py", "unit.py"]
    names = module_names(Path(file) for file in files)
    assert names == ["a", "a-2", "a-2-2", "_user", "_1", "x_y_.py", "_", "_.txt", "unit.py", "unit.py-2"]


def test_usage(here: Path) -> None:
    assert call("new", "guide").exit_code == 2
    assert call("new", "guide", "why.xml", "--turn", "assistant").exit_code == 2
