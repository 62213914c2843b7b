"""The command as a whole, and how schemas are told from prompts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from promptcache.cli.schema_files import root_of
from tests.cli.commands import call


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<schema name='a'/>", ("schema", "a")),
        ('\ufeff<?xml version="1.0"?>\n<!-- <prompt> -->\n<prompt schema="x">', ("prompt", None)),
        ('<schema xml:space="preserve"\n name = "b.c">', ("schema", "b.c")),
        ("<!-- never closed <schema>", ("", None)),
        ("", ("", None)),
        ("text", ("", None)),
        ("<!---->" * 5000, ("", None)),
        ("<schema " + 'a="b" ' * 5000, ("schema", None)),
    ],
)
def test_root_of(text: str, expected: tuple[str, str | None], tmp_path: Path) -> None:
    (tmp_path / "x.xml").write_text(text, encoding="utf-8")
    assert root_of(tmp_path / "x.xml") == expected


def test_convert_says_where_the_model_is(model_folder: str) -> None:
    result = call("convert", "--model", model_folder)
    assert (result.exit_code, result.stdout.strip()) == (0, model_folder)


def test_no_command_is_wrong_usage() -> None:
    assert call().exit_code == 2
    assert call("frobnicate").exit_code == 2


def test_as_a_module(here: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, "-m", "promptcache", "new", "guide", "why.xml"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == '<prompt schema="guide"><why.xml/>Your question</prompt>\n'
