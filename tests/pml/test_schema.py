"""Schemas as values: built in Python, searched, written."""

from __future__ import annotations

import pytest

from promptcache.errors import SchemaError
from promptcache.pml import Module, Node, Note, Parameter, Scaffold, Schema, Text, Turn, Union, parse_schema
from promptcache.source import Source, Span
from tests.pml.faults import fault_of


def test_from_modules() -> None:
    schema = Schema.from_modules({"faq": "Q & A", "terms": "  <b>\n", "none": ""}, name="docs", intro="Read.")
    assert schema == Schema(
        "docs",
        (Text("Read.\n"), Module("faq", (Text("Q & A\n"),)), Module("terms", (Text("  <b>\n\n"),)), Module("none")),
    )


def test_from_modules_in_a_turn_with_a_separator() -> None:
    schema = Schema.from_modules({"a": "A"}, name="docs", intro="I", role="user", separator=" --- ")
    assert schema.children == (Turn("user", (Text("I --- "), Module("a", (Text("A --- "),)))),)


def test_from_modules_takes_texts_to_the_byte() -> None:
    text = " \r\n\t<user>&amp;]]><|im_end|>\0\x1b\ufffe "
    schema = Schema.from_modules({"a": text}, name="docs", intro=text, separator="")
    assert schema.children == (Text(text), Module("a", (Text(text),)))
    assert Schema.from_modules({}, name="docs", intro="").children == ()


@pytest.mark.parametrize(
    ("modules", "options", "words"),
    [
        ({"a b": "x"}, {}, '"a b" is not a name'),
        ({"user": "x"}, {}, "reserved"),
        ({"a": b"x"}, {}, "not bytes"),
        ({1: "x"}, {}, "not int"),
        ({"a": "x"}, {"name": "a b"}, '"a b" is not a name'),
        ({"a": "x"}, {"role": "tool"}, '"tool" is not a role'),
        ({"a": "\ud800"}, {}, "surrogate"),
        ({"a": "x"}, {"intro": "\udfff"}, "surrogate"),
        ({"a": "x"}, {"separator": None}, "not NoneType"),
    ],
)
def test_from_modules_refuses(modules: dict[str, str], options: dict[str, object], words: str) -> None:
    fault = fault_of(lambda: Schema.from_modules(modules, **({"name": "docs"} | options)))  # type: ignore[arg-type]
    assert isinstance(fault, SchemaError)
    assert words in fault.message


NESTED = Schema(
    "s",
    (
        Module("a", (Module("b", (Turn("user", (Module("c"),)),)), Union((Module("d"),)))),
        Turn("user", (Union((Module("e"), Union((Module("f", (Module("a"),)), Module("g"))))),)),
    ),
)


def test_modules_are_found_by_path() -> None:
    for path in ("a", "a/b", "a/b/c", "a/d", "e", "f", "f/a", "g"):
        module = NESTED.module(path)
        assert module is not None
        assert module.name == path.rpartition("/")[2]
    for path in ("", "b", "a/c", "a/", "/a", "f/a/b", "a//b"):
        assert NESTED.module(path) is None


def test_modules_are_walked_in_document_order() -> None:
    assert [path for path, _ in NESTED.walk_modules()] == ["a", "a/b", "a/b/c", "a/d", "e", "f", "f/a", "g"]
    assert all(NESTED.module(path) is module for path, module in NESTED.walk_modules())


@pytest.mark.parametrize(
    ("children", "words"),
    [
        ((Parameter("p", 1),), "outside of a module"),
        ((Module("m", (Parameter("p", 0),)),), "length 0"),
        ((Turn("user", (Module("m", (Turn("user"),)),)),), "<user> stands inside <user>"),
        ((Union(()),), "without modules"),
        ((Union((Union(()),)),), "without modules"),
        ((Module("m"), Module("m")), "two modules"),
        ((Module("m", (Parameter("p", 1, "\ud800"),)),), "surrogate"),
    ],
)
def test_every_schema_obeys_the_rules(children: tuple[Node, ...], words: str) -> None:
    assert words in fault_of(lambda: Schema("s", children)).message


def test_nodes_nested_too_deep_are_refused_without_recursion() -> None:
    node = Module("m")
    for _ in range(10_000):
        node = Module("m", (node,))
    assert "nest deeper" in fault_of(lambda: Schema("s", (node,))).message


def test_children_are_kept_in_one_form() -> None:
    schema = Schema(
        "s",
        (
            Text("a"),
            Text(""),
            Text("b"),
            Module("m", (Text("c"), Text("d "), Parameter("p", 1), Text(" "), Parameter("q", 1), Text(""))),
            Text(""),
        ),
    )
    assert schema.children == (
        Text("ab"),
        Module("m", (Text("cd"), Parameter("p", 1, space=True), Parameter("q", 1, space=True))),
    )


def test_places_and_notes_take_no_part_in_equality() -> None:
    span = Span(Source("x", "y"), 1, 1)
    assert Schema("s", (Text("a", span),), span=span, notes=(Note("n"),)) == Schema("s", (Text("a"),))
    assert hash(Schema("s", (Text("a", span),), span=span)) == hash(Schema("s", (Text("a"),)))


def test_to_xml() -> None:
    schema = Schema(
        "s",
        (
            Text(" a\r\n"),
            Turn(
                "user", (Text("<&>]]>\"'\t"), Module("m", (Text("x"), Parameter("p", 2, '\n\t\r"<', "", True)), False))
            ),
            Union((Module("b"), Union((Module("c"),), "c")), "b"),
        ),
        (Scaffold(("b",)),),
    )
    assert schema.to_xml() == (
        '<schema name="s" xml:space="preserve"> a&#13;\n<user>&lt;&amp;&gt;]]&gt;"\'\t<module name="m" cache="false">x '
        '<parameter name="p" length="2" scaffold="&#10;&#9;&#13;&quot;&lt;" default=""/></module></user>'
        '<union scaffold="b"><module name="b"></module><union scaffold="c"><module name="c"></module></union></union>'
        '<scaffold modules="b"/></schema>'
    )
    assert parse_schema(schema.to_xml()) == schema


@pytest.mark.parametrize("character", ["\0", "\x0b", "\x1f", "\ufffe", "\uffff"])
def test_to_xml_refuses_what_xml_cannot_carry(character: str) -> None:
    for children in ((Text(f"a{character}"),), (Module("m", (Parameter("p", 1, character),)),)):
        fault = fault_of(lambda children=children: Schema("s", children).to_xml())  # type: ignore[misc]
        assert isinstance(fault, SchemaError)
        assert f"U+{ord(character):04X}" in fault.message


@pytest.mark.parametrize("text", ["x" * 10_000_000, "é" * 5_000_000])
def test_to_xml_refuses_what_a_parser_would(text: str) -> None:
    assert "ten million" in fault_of(Schema("s", (Text(text),)).to_xml).message
    almost = Schema("s", (Text(text[: len(text) * 99 // 100]),))
    assert parse_schema(almost.to_xml()) == almost
