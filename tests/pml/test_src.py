"""Modules whose text is a file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from promptcache.errors import PMLSyntaxError, SchemaError
from promptcache.pml import Module, Text, parse_prompt, parse_schema, read_prompt, read_schema
from tests.pml.faults import fault_of, mark, places


def schema(src: str, more: str = "", content: str = "") -> str:
    return f'<schema name="s"><module name="m" {more} src="{src}">{content}</module></schema>'


def text(folder: Path, src: str = "code.py", more: str = "") -> str:
    """The text of a module read from `folder`."""
    [module] = parse_schema(schema(src, more), folder=folder).children
    assert isinstance(module, Module)
    return "".join(node.text for node in module.children if isinstance(node, Text))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("def f():\n    return 1\n", "def f():\n    return 1"),
        ("    def f():\n        return 1\n", "def f():\n    return 1"),
        ("\n\n  a\n\n  b\n\n", "a\n\nb"),
        ("a < b && <user> </module> &amp; ]]>", "a < b && <user> </module> &amp; ]]>"),
        ("a\r\nb\rc\n", "a\nb\nc"),
        ("\ufeffa", "a"),
        ("", ""),
        (" \n ", ""),
        ("a\0b\x1b", "a\0b\x1b"),
    ],
)
def test_the_text_is_never_parsed_and_follows_the_white_space_rules(
    tmp_path: Path, content: str, expected: str
) -> None:
    (tmp_path / "code.py").write_bytes(content.encode())
    assert text(tmp_path) == expected


def test_preserved(tmp_path: Path) -> None:
    (tmp_path / "code.py").write_bytes(b"  a\r\n  b\n\n")
    assert text(tmp_path, more='xml:space="preserve"') == "  a\r\n  b\n\n"


def test_files_are_looked_up_beside_the_schema(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.txt").write_text("text")
    (tmp_path / "s.xml").write_text(schema("sub/a.txt"))
    assert read_schema(tmp_path / "s.xml").children == (Module("m", (Text("text"),)),)
    (tmp_path / "t.xml").write_text(schema("sub/../sub/./a.txt", content="\n  <!-- from a file -->\n"))
    assert read_schema(tmp_path / "t.xml").children == (Module("m", (Text("text"),)),)


def test_a_line_break_behind_joins_the_text_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text\n")
    joined = parse_schema('<schema name="s"><module name="m" src="a.txt"/>\nb</schema>', folder=tmp_path)
    assert joined.children == (Module("m", (Text("text\n"),)), Text("b"))


def test_links_that_stay_inside_are_followed(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text")
    (tmp_path / "code.py").symlink_to("a.txt")
    (tmp_path / "other").symlink_to(tmp_path, target_is_directory=True)
    assert text(tmp_path) == "text"
    assert text(tmp_path / "other") == "text"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A schema's folder among things it must not reach."""
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "secret.txt").write_text("canary")
    (inside / "link.txt").symlink_to(tmp_path / "secret.txt")
    (inside / "up").symlink_to(tmp_path, target_is_directory=True)
    (inside / "loop").symlink_to("loop")
    (inside / "latin.txt").write_bytes(b"caf\xe9")
    (inside / "dir").mkdir()
    os.mkfifo(inside / "fifo")
    with (inside / "large.txt").open("wb") as file:
        file.truncate(10_000_001)
    return inside


@pytest.mark.parametrize(
    ("src", "words"),
    [
        ("../secret.txt", "leaves the schema's folder"),
        ("../nothing.txt", "leaves the schema's folder"),
        ("/etc/hostname", "leaves the schema's folder"),
        ("link.txt", "leaves the schema's folder"),
        ("up/secret.txt", "leaves the schema's folder"),
        ("dir/../../secret.txt", "leaves the schema's folder"),
        ("nothing.txt", "cannot be read: No such file"),
        ("loop", "cannot be read"),
        ("a" * 5000, "cannot be read: File name too long"),
        ("latin.txt/x", "cannot be read: Not a directory"),
        ("latin.txt", "is not UTF-8 (byte 3)"),
        ("large.txt", "is larger than"),
        ("dir", "is no plain file"),
        ("", "is no plain file"),
        (".", "is no plain file"),
        ("fifo", "is no plain file"),
        ("http://localhost/x", "cannot be read"),
    ],
)
def test_what_is_refused(folder: Path, src: str, words: str) -> None:
    written, place = mark(schema("", "").replace("src=", "^src="))
    written = written.replace('src=""', f'src="{src}"')
    fault = fault_of(lambda: parse_schema(written, folder=folder))
    assert isinstance(fault, SchemaError)
    assert words in fault.message
    assert "canary" not in str(fault)
    assert places(fault) == [place]


def test_src_without_a_folder_is_refused(tmp_path: Path) -> None:
    fault = fault_of(lambda: parse_schema(schema("code.py")))
    assert isinstance(fault, SchemaError)
    assert "not read from a file" in fault.message
    fault = fault_of(lambda: parse_schema(schema("code.py"), folder=tmp_path / "nothing"))
    assert "cannot be read" in fault.message


@pytest.mark.parametrize("content", ["text", "<module name='n'/>", "<![CDATA[x]]>"])
def test_the_file_is_the_only_content(tmp_path: Path, content: str) -> None:
    (tmp_path / "code.py").write_text("x")
    fault = fault_of(lambda: parse_schema(schema("code.py", content=content), folder=tmp_path))
    assert "take one of them out" in (fault.hint or "")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for read in (read_schema, read_prompt):
        for path in (tmp_path / "nothing.xml", tmp_path, tmp_path / "a\0b"):
            fault = fault_of(lambda path=path, read=read: read(path))  # type: ignore[misc]
            assert isinstance(fault, PMLSyntaxError)
            assert "cannot be read" in fault.message


def test_files_that_are_not_utf8(tmp_path: Path) -> None:
    file = tmp_path / "s.xml"
    file.write_bytes("<schema name='s'>\n é".encode() + b"caf\xe9</schema>")
    fault = fault_of(lambda: read_schema(file))
    assert fault.summary() == f"{file}:2:6: the byte 0xE9 is not UTF-8"
    for data in ("<schema name='s'/>".encode("utf-16"), b"\xff", b"\xed\xa0\x80", b"\x1f\x8b\x08"):
        file.write_bytes(data)
        assert isinstance(fault_of(lambda: read_schema(file)), PMLSyntaxError)


def test_a_prompt_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "p.xml").write_text("<prompt>é</prompt>", encoding="utf-8")
    assert read_prompt(tmp_path / "p.xml") == parse_prompt("<prompt>é</prompt>")
