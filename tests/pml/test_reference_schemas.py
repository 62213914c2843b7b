"""The example files of the paper's public code."""

from __future__ import annotations

from pathlib import Path

import pytest

from promptcache.errors import PMLSyntaxError
from promptcache.pml import BoundImport, Parameter, Schema, Text, bind, parse_schema, read_prompt, read_schema
from tests.pml.faults import fault_of, places

BROKEN = "code_generation_game.xml"


@pytest.fixture
def files(shared_data: Path) -> dict[str, Path]:
    return {path.name: path for path in sorted((shared_data / "reference_schemas").glob("*.xml"))}


def test_all_but_one_load(files: dict[str, Path]) -> None:
    schemas = {name: path for name, path in files.items() if name != BROKEN and not name.startswith("prompt")}
    assert len(schemas) == 7
    for path in schemas.values():
        schema = read_schema(path)
        assert parse_schema(schema.to_xml()) == schema


def test_the_one_that_is_not_well_formed_shows_all_its_faults(files: dict[str, Path]) -> None:
    fault = fault_of(lambda: read_schema(files[BROKEN]))
    assert isinstance(fault, PMLSyntaxError)
    assert fault.summary().startswith(f"{files[BROKEN]}:167:20: ")
    assert places(fault) == ["167:20", "167:35", "168:20", "168:35", "198:26"]


def test_the_prompt_binds_and_its_schemas_placeholders_are_empty(files: dict[str, Path]) -> None:
    schema = read_schema(files["schema_mbti_short.xml"])
    prompt = bind(read_prompt(files["prompt_mbti.xml"]), schema)
    assert [item.path for item in prompt.items if isinstance(item, BoundImport)] == ["E", "N", "T", "P"]
    for name in ("EI", "ST", "TF", "JP"):
        module = schema.module(name)
        assert module is not None
        assert module.children == ()


def test_code_keeps_its_indentation(files: dict[str, Path]) -> None:
    module = read_schema(files["code_generation_bookstore.xml"]).module("book.py")
    assert module is not None
    [text] = module.children
    assert isinstance(text, Text)
    assert text.text.startswith("class Book:\n    def __init__(self, title, author, price, isbn):\n        self.title")
    assert text.text.endswith("        self.isbn = isbn\n")


def test_a_cut_out_word_is_warned_of(files: dict[str, Path]) -> None:
    [note] = read_schema(files["parameterized_prompts.xml"]).notes
    assert "duration of" in note.message


def test_every_kind_of_element_is_read(files: dict[str, Path]) -> None:
    schema: Schema = read_schema(files["schema_code_generation.xml"])
    assert [path for path, _ in schema.walk_modules()] == [
        "preface",
        "preface/nested",
        "preface/system1",
        "preface/system2",
        "preface/system3",
        "preface/user1",
        "preface/user2",
        "task",
        "task/task-robot-control",
        "task/task-predict-future",
        "task/task-random",
    ]
    uncached = [path for path, module in schema.walk_modules() if not module.cache]
    assert uncached == ["preface/system2", "preface/user1"]
    preface = schema.module("preface")
    assert preface is not None
    assert preface.children[:2] == (
        Text("Just some text with parameter:\n"),
        Parameter("param-name", 5, "[to be filled later]"),
    )
