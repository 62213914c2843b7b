"""`promptcache check`: one line a fault, and the exit codes."""

from __future__ import annotations

from pathlib import Path

from tests.cli.commands import PROMPT, call


def test_good_files(here: Path, model_folder: str) -> None:
    result = call("check", "zoo.xml", "why.xml", "--model", model_folder)
    assert (result.exit_code, result.stdout) == (0, "")
    assert "2 checked: 0 faults, 0 warnings" in result.stderr


def test_every_fault_has_its_line(here: Path) -> None:
    (here / "zoo.xml").write_text('<schema name="zoo">\n <module/>\n <modul name="a">\n </modul>\n</schema>')
    result = call("check", "zoo.xml", "--model", "./never-loaded")
    assert result.exit_code == 1
    first, second, *hints = result.stdout.splitlines()
    assert first.startswith("zoo.xml:2:2: ")
    assert second.startswith("zoo.xml:3:2: ")
    assert all(line.startswith("hint: ") for line in hints)
    assert "2 faults" in result.stderr


def test_faults_that_show_only_against_the_schema(here: Path, model_folder: str) -> None:
    (here / "why.xml").write_text('<prompt schema="zoo"><cat/><red/><white/></prompt>')
    result = call("check", "why.xml", "--model", model_folder)
    assert result.exit_code == 1
    places = [line.split(" ")[0] for line in result.stdout.splitlines() if not line.startswith("hint")]
    assert places == ["why.xml:1:22:", "why.xml:1:34:"]


def test_a_schemas_faults_are_told_once(here: Path, model_folder: str) -> None:
    (here / "zoo.xml").write_text('<schema name="zoo"><module/></schema>')
    (here / "two.xml").write_text(PROMPT)
    result = call("check", "why.xml", "zoo.xml", "two.xml", "--model", model_folder)
    assert result.exit_code == 1
    assert result.stdout.count("zoo.xml:1:20: ") == 1
    assert "1 faults" in result.stderr


def test_a_schema_too_long_for_the_model(here: Path, model_folder: str) -> None:
    (here / "zoo.xml").write_text(f'<schema name="zoo">\n <module name="m">{"word " * 200}</module></schema>')
    result = call("check", "zoo.xml", "--model", model_folder)
    assert result.exit_code == 1
    assert result.stdout.startswith("zoo.xml:2:2: ")


def test_warnings_count_only_when_strict(here: Path, model_folder: str) -> None:
    text = '<schema name="zoo"><union><module name="a">A.</module></union></schema>'
    (here / "zoo.xml").write_text(text)
    result = call("check", "zoo.xml", "--model", model_folder)
    assert result.exit_code == 0
    assert result.stdout.startswith("zoo.xml:1:20: warning: ")
    assert call("check", "zoo.xml", "--model", model_folder, "--strict").exit_code == 1


def test_a_file_that_is_not_there(here: Path) -> None:
    result = call("check", "nothing.xml", "--model", "./never-loaded")
    assert result.exit_code == 1
    assert result.stdout.startswith("nothing.xml:1:1: ")


def test_a_model_that_is_not_there_is_said_plainly(here: Path) -> None:
    result = call("check", "zoo.xml", "--model", "./nothing")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "there is no such folder" in result.stderr


def test_two_schemas_of_one_name(here: Path, model_folder: str) -> None:
    (here / "b").mkdir()
    (here / "b" / "zoo.xml").write_text('<schema name="zoo"><module name="dogs">Dogs.</module></schema>')
    (here / "b" / "dogs.xml").write_text('<prompt schema="zoo"><dogs/></prompt>')
    assert call("check", "why.xml", "b/dogs.xml", "why.xml", "--model", model_folder).exit_code == 0
