"""Schemas as text: elements, attributes, and every fault at its place."""

from __future__ import annotations

import pytest

from promptcache.errors import PMLSyntaxError, SchemaError
from promptcache.pml import Module, Parameter, Scaffold, Text, Turn, Union, parse_schema
from promptcache.source import Source
from tests.pml.faults import fault_of, mark, places, schema_fault

TRIP = """\
<schema name="trip">
 <system>
  You are a travel planner.                              <!-- anonymous text: in every prompt of this schema -->
  <module name="miami">
    Miami has ...
    <module name="beaches">...</module>                  <!-- nested: importable only inside <miami> -->
  </module>
  <union scaffold="train">                               <!-- mutually exclusive; same start position -->
    <module name="train">by train</module>
    <module name="plane">by plane</module>
  </union>
  <module name="plan">
    Plan a trip of <parameter name="days" length="5" scaffold="seven"/> days.
  </module>
 </system>
 <scaffold modules="miami plan"/>                        <!-- encoded together -->
</schema>
"""


def test_the_example_of_the_reference() -> None:
    schema = parse_schema(TRIP)
    assert schema.name == "trip"
    assert schema.children == (
        Turn(
            "system",
            (
                Text("You are a travel planner.\n"),
                Module("miami", (Text("Miami has ...\n"), Module("beaches", (Text("...\n"),)))),
                Union((Module("train", (Text("by train\n"),)), Module("plane", (Text("by plane\n"),))), "train"),
                Module(
                    "plan",
                    (Text("Plan a trip of"), Parameter("days", 5, "seven", space=True), Text(" days.")),
                ),
            ),
        ),
    )
    assert schema.scaffolds == (Scaffold(("miami", "plan")),)


def test_both_spellings() -> None:
    text = '<schema name="s"><module name="m"><{} name="p" {}="7" scaffold="s" default="d"/></module></schema>'
    long = parse_schema(text.format("parameter", "length"))
    assert long.children == (Module("m", (Parameter("p", 7, "s", "d"),)),)
    assert parse_schema(text.format("param", "len")) == long
    assert parse_schema(text.format("param", "length")) == long


def test_cache() -> None:
    schema = parse_schema('<schema name="s"><module name="a" cache="false"/><module name="b" cache="true"/></schema>')
    assert schema.children == (Module("a", cache=False), Module("b"))


def test_empty_attributes_are_values() -> None:
    schema = parse_schema(
        '<schema name="s"><module name="a"><param name="p" len="1" scaffold="" default=""/></module></schema>'
    )
    assert schema.children == (Module("a", (Parameter("p", 1, "", ""),)),)


def test_roles_may_stand_in_modules_and_hold_parameters() -> None:
    schema = parse_schema(
        '<schema name="s"><module name="m"><user>Hi <param name="p" len="1"/>'
        '<union><module name="a">A<param name="q" len="2"/></module></union></user></module></schema>'
    )
    assert schema.children == (
        Module(
            "m",
            (
                Turn(
                    "user",
                    (
                        Text("Hi"),
                        Parameter("p", 1, space=True),
                        Union((Module("a", (Text("A"), Parameter("q", 2))),)),
                    ),
                ),
            ),
        ),
    )


FAULTS = [
    # elements
    ("<schema name='s'>a ^<b>bold</b></schema>", "PML has no element <b>", "module"),
    ("<schema name='s'>^<Module name='m'/></schema>", "PML has no element <Module>", "did you mean <module>?"),
    ("<schema name='s'>^<modul name='m'/></schema>", "<modul>", "did you mean <module>?"),
    ("<schema name='s'>^<schema name='t'/></schema>", "<schema> stands inside", "root"),
    ("<schema name='s'><module name='m'>^<prompt/></module></schema>", "<prompt> stands inside", "root"),
    ("<schema name='s'>^<中文/></schema>", "<中文>", "module"),
    ("<schema name='s'><union>^text<module name='m'/></union></schema>", "text between the members", "module"),
    ("<schema name='s'><union><module name='m'/>^<user/></union></schema>", "<user> stands in a union", "modules"),
    ("<schema name='s'>^<union> </union></schema>", "a union without modules", "take it out"),
    ("<schema name='s'><user>^<system/></user></schema>", "<system> stands inside <user>", "close"),
    ("<schema name='s'><user><module name='m'>^<system/></module></user></schema>", "<system> stands inside", "close"),
    ("<schema name='s'><module name='m'>^<scaffold modules='m'/></module></schema>", "<scaffold> stands", "directly"),
    ("<schema name='s'>^<parameter name='p' length='1'/></schema>", 'parameter "p" stands outside', "module"),
    ("<schema name='s'><user>^<parameter name='p' length='1'/></user></schema>", "stands outside", "module"),
    ("<schema name='s'><union>^<param name='p' len='1'/><module name='m'/></union></schema>", "in a union", "modules"),
    ("<schema name='s'><module name='m'><param name='p' len='1'>^x</param></module></schema>", "text in <param>", ""),
    (
        "<schema name='s'><module name='m'><param name='p' len='1'>^<b/></param></module></schema>",
        "<b> stands in <param>",
        "scaffold",
    ),
    # attributes
    ("^<schema/>", '<schema> has no "name"', 'name="trip"'),
    ("<schema name='s' ^title='t'/>", '<schema> has no attribute "title"', "allowed here: name"),
    ("<schema name='s'>^<module/></schema>", '<module> has no "name"', "name="),
    ("<schema name='s'><module name='m' ^chache='true'/></schema>", '"chache"', 'did you mean "cache"?'),
    ("<schema name='s'><module name='m' ^cache='yes'/></schema>", 'cache="yes"', None),
    ("<schema name='s'><user ^name='u'/></schema>", '<user> has no attribute "name"', "none"),
    ("<schema name='s'>^<scaffold/></schema>", '<scaffold> has no "modules"', "modules="),
    ("<schema name='s'><module name='m'>^<param len='1'/></module></schema>", '<param> has no "name"', "name="),
    ("<schema name='s'><module name='m'>^<param name='p'/></module></schema>", 'no "length"', "length="),
    (
        "<schema name='s'><module name='m'>^<param name='p' len='1' length='1'/></module></schema>",
        '"length" and "len"',
        "length=",
    ),
    *(
        (f"<schema name='s'><module name='m'><param name='p' ^len='{length}'/></module></schema>", "tokens", "digits")
        for length in ("", "0", "-1", "1.5", "ten", "1" * 5000, "٣", "1_0", " 1")
    ),
    # names
    ("^<schema name='a b'/>", '"a b" is not a name', "a letter"),
    *(
        (f"<schema name='s'>^<module name='{name}'/></schema>", "is not a name", "a letter")
        for name in ("", "1a", "a/b", "a[1]", "中文", "a b", "-a", ".a", "a:b")
    ),
    *(
        (f"<schema name='s'>^<module name='{name}'/></schema>", f'"{name}" is reserved', "choose")
        for name in (
            "schema",
            "prompt",
            "module",
            "union",
            "parameter",
            "param",
            "system",
            "user",
            "assistant",
            "scaffold",
        )
    ),
    ("<schema name='s'><module name='m'>^<param name='1' len='1'/></module></schema>", "is not a name", "a letter"),
    ("<schema name='s'><module name='m'/>\n^<module name='m'/></schema>", "two modules", "rename"),
    ("<schema name='s'><union><module name='m'/>^<module name='m'/></union></schema>", "two modules", "rename"),
    (
        "<schema name='s'><union><module name='m'/></union><union>^<module name='m'/></union></schema>",
        'the schema has two modules "m" (the first is in line 1)',
        "rename",
    ),
    ("<schema name='s'><user><module name='m'/></user>^<module name='m'/></schema>", "two modules", "rename"),
    (
        "<schema name='s'><module name='o'><module name='m'/><union><union>^<module name='m'/></union></union></module>"
        "</schema>",
        'module "o" has two modules "m"',
        "rename",
    ),
    (
        "<schema name='s'><module name='m'><param name='p' len='1'/><user>^<param name='p' len='1'/></user></module>"
        "</schema>",
        'module "m" has two parameters "p"',
        "rename",
    ),
    # unions and scaffolds
    (
        "<schema name='s'>^<union scaffold='trane'><module name='train'/></union></schema>",
        'no member "trane"',
        'did you mean "train"? its members: train',
    ),
    (
        "<schema name='s'><module name='miami'/>^<scaffold modules='maimi'/></schema>",
        'lists "maimi", which is no module',
        'did you mean "miami"?',
    ),
    ("<schema name='s'><module name='m'/>^<scaffold modules='m m'/></schema>", 'lists "m" twice', "once"),
    ("<schema name='s'><module name='m'/>^<scaffold modules=' '/></schema>", "without modules", "list them"),
    (
        "<schema name='s'><module name='m' cache='false'/>^<scaffold modules='m'/></schema>",
        'cache="false"',
        "leave it out",
    ),
    (
        "<schema name='s'><union><module name='a'/><union><module name='b'/></union></union>"
        "^<scaffold modules='a b'/></schema>",
        'lists "a" and "b" of one union',
        "at most one",
    ),
    (
        "<schema name='s'><union><module name='a'><module name='c'/></module><module name='b'/></union>"
        "^<scaffold modules='a/c b'/></schema>",
        'lists "a" and "b" of one union',
        "at most one",
    ),
]


@pytest.mark.parametrize(("text", "words", "hint"), FAULTS)
def test_fault(text: str, words: str, hint: str | None) -> None:
    text, place = mark(text)
    fault = schema_fault(text)
    unknown = "PML has no element" in fault.message or fault.hint == "it is a root element"
    assert isinstance(fault, PMLSyntaxError if unknown else SchemaError)
    assert words in fault.message
    assert fault.hint is None if hint is None else hint in (fault.hint or "")
    assert places(fault) == [place]


def test_names_that_are_legal() -> None:
    for name in ("unit.py", "a-b", "_", "A9.", "Schema", "xml"):
        assert parse_schema(f"<schema name='s'><module name='{name}'/></schema>").children == (Module(name),)


def test_one_name_may_stand_in_two_scopes() -> None:
    parse_schema("<schema name='s'><module name='m'><module name='m'/><module name='s'/></module></schema>")


def test_scaffolds_take_names_and_paths() -> None:
    schema = parse_schema(
        "<schema name='s'><module name='a'><module name='b'><module name='d'/></module></module>"
        "<module name='c'><module name='a'/></module>"
        "<scaffold modules=' a/b\n c\td '/><scaffold modules='c/a a'/></schema>"
    )
    assert schema.scaffolds == (Scaffold(("a/b", "c", "a/b/d")), Scaffold(("c/a", "a")))


def test_a_name_that_is_not_unique_is_no_path() -> None:
    fault = schema_fault(
        "<schema name='s'><module name='a'><module name='x'/></module><module name='b'><module name='x'/></module>"
        "<scaffold modules='x'/></schema>"
    )
    assert fault.hint == "modules: a, a/x, b, b/x"


def test_all_faults_are_found_in_one_pass() -> None:
    fault = schema_fault(
        """<schema nam="s">
  <modul name="a"><param name="p"/></modul>
  <module name="1"><module name="b" cache="no"/></module>
  <union scaffold="x">text<module name="y"/></union>
  <user><user/></user>
  <scaffold modules="z"/>
  <module src="nothing.txt" name="c"/>
</schema>"""
    )
    assert places(fault) == ["1:1", "1:9", "2:3", "2:19", "3:3", "3:37", "4:3", "4:23", "5:9", "6:3", "7:11"]


def test_a_source_has_its_own_name() -> None:
    fault = fault_of(lambda: parse_schema(Source("trip.xml", "<schema/>")))
    assert (fault.file, fault.line, fault.column) == ("trip.xml", 1, 1)
    assert fault.summary() == 'trip.xml:1:1: <schema> has no "name"'


def test_many_faults_end_the_pass() -> None:
    fault = schema_fault(f"<schema name='s'>{'<b/>' * 10_000}</schema>")
    assert len(fault.others) == 99
