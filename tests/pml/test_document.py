"""Strict XML: what is refused, with what message, at which place."""

from __future__ import annotations

import pytest

from promptcache.errors import PMLSyntaxError
from promptcache.pml import parse_prompt, parse_schema
from promptcache.pml.document import MAX_DEPTH
from promptcache.pml.nodes import Module, Text
from tests.pml.faults import fault_of, mark, places, prompt_fault, schema_fault


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("^", "empty"),
        ("^hello", "Start tag expected"),
        ("<schema name='s'>\n if a <^ b</schema>", "begins no tag"),
        ("<schema name='s'>\n if é中\U0001f600 &^ b</schema>", "begins no tag"),
        ("<schema name='s'>&foo;^</schema>", "'foo' not defined"),
        ("<schema name='s'><module name='a'></schema>^", "mismatch"),
        ("<schema name='s'>^", "Premature end"),
        ("<schema name='s' name='t'^/>", "redefined"),
        ("<schema name=^s/>", "AttValue"),
        ("<schema name='s'/>^<schema name='t'/>", "Extra content"),
        ("<schema name='s'/>^text", "Extra content"),
        ("<schema name='s'>^]]></schema>", "not allowed in content"),
        ("<schema name='s'>&#0;^</schema>", "invalid xmlChar"),
        ("<schema name='s'>&#xD800;^</schema>", "invalid xmlChar"),
        ("<schema name='s'><!-- ^-- --></schema>", "hyphen"),
        ("<p:schema name='s'^/>", "prefix p"),
    ],
)
def test_not_well_formed(text: str, words: str) -> None:
    text, place = mark(text)
    fault = schema_fault(text)
    assert isinstance(fault, PMLSyntaxError)
    assert fault.message.startswith("not well-formed XML: ")
    assert words in fault.message
    assert places(fault)[0] == place


def test_the_line_is_shown_with_a_caret_and_a_hint() -> None:
    assert str(schema_fault("<schema name='s'>\n\tif a < b:\n</schema>")).splitlines() == [
        "<schema>:2:8: not well-formed XML: a < or & that begins no tag, and no reference",
        "  \tif a < b:",
        "  \t      ^",
        "hint: write &lt; for < and &amp; for &, or put the text into <![CDATA[ ]]>",
    ]


def test_all_faults_are_listed() -> None:
    fault = schema_fault("<schema name='s'>\na < b\nc & d\n<module>&x;</module>\n</schema>")
    assert places(fault) == ["2:4", "3:4", "4:12"]


@pytest.mark.parametrize(
    "doctype",
    [
        "<!DOCTYPE schema>",
        '<!DOCTYPE schema SYSTEM "file:///etc/hostname">',
        '<!DOCTYPE schema [<!ENTITY x SYSTEM "file:///etc/hostname">]>',
        "<!DOCTYPE schema [" + "".join(f'<!ENTITY e{i + 1} "{f"&e{i};" * 10}">' for i in range(10)) + "]>",
        "<!DOCTYPE",
    ],
)
@pytest.mark.parametrize("before", ["", "\n", "<?xml version='1.0'?>\n", "<!-- <a> --> <?p?>\n <!-- - -->"])
def test_a_doctype_is_refused(doctype: str, before: str) -> None:
    fault = schema_fault(f"{before}{doctype}<schema name='s'>&x;&e9;</schema>")
    assert isinstance(fault, PMLSyntaxError)
    assert "DOCTYPE" in fault.message
    assert places(fault) == [mark(f"{before}^")[1]]


def test_a_doctype_behind_a_fault_is_never_read() -> None:
    fault = schema_fault("x<!DOCTYPE schema [<!ENTITY x 'y'>]><schema name='s'>&x;</schema>")
    assert places(fault) == ["1:1"]


def test_a_long_prolog_takes_no_time() -> None:
    assert "Start tag" in schema_fault("<!-- a --> " * 20_000 + "x").message


@pytest.mark.parametrize("encoding", ["UTF-16", "ISO-8859-1", "nonsense"])
def test_only_utf8(encoding: str) -> None:
    fault = schema_fault(f"<?xml version='1.0' encoding='{encoding}'?><schema name='s'/>")
    assert f'"{encoding}"' in fault.message
    assert places(fault) == ["1:31"]
    assert parse_schema("<?xml version='1.0' encoding='utf-8'?><schema name='s'/>").name == "s"


@pytest.mark.parametrize("character", ["\0", "\x08", "\x1b", "\x0c", "\ufffe", "\uffff", "\ud800", "\udfff"])
@pytest.mark.parametrize(
    "text", ["<schema name='s'>\n {}</schema>", "<schema name='{}'/>", "<schema name='s'/>{}", "{}"]
)
def test_characters_that_xml_cannot_carry(character: str, text: str) -> None:
    fault = schema_fault(text.format(character))
    assert isinstance(fault, PMLSyntaxError)
    assert f"U+{ord(character):04X}" in fault.message
    assert places(fault) == [mark(text.format("^"))[1]]
    str(fault).encode()


@pytest.mark.parametrize(
    "text",
    [
        "<schema name='s' ^xmlns='urn:x'/>",
        "<schema name='s' ^xmlns:p='urn:x'><p:module name='m'/></schema>",
        "<schema name='s'><xi:include ^xmlns:xi='http://www.w3.org/2001/XInclude' href='/etc/hostname'/></schema>",
        "<schema name='s' ^xml:lang='de'/>",
        "<schema name='s'><module name='m' ^xml:base='/etc'/></schema>",
        "<schema name='s' ^xml:space='keep'/>",
    ],
)
def test_namespaces_are_refused(text: str) -> None:
    text, place = mark(text)
    fault = schema_fault(text)
    assert isinstance(fault, PMLSyntaxError)
    assert places(fault)[0] == place


def test_prefixed_elements_are_unknown() -> None:
    assert "<xml:module>" in schema_fault("<schema name='s'><xml:module name='m'/></schema>").message


def nested(depth: int) -> str:
    """A schema whose elements nest this deep."""
    names = [f"m{number}" for number in range(depth - 1)]
    opened = "".join(f'<module name="{name}">' for name in names)
    return f'<schema name="s">{opened}text{"</module>" * len(names)}</schema>'


def test_nesting_is_limited() -> None:
    node = parse_schema(nested(MAX_DEPTH)).children[0]
    for _ in range(MAX_DEPTH - 1):
        assert isinstance(node, Module)
        [node] = node.children
    assert node == Text("text")
    for depth in (MAX_DEPTH + 1, 255, 300, 5000):
        assert isinstance(schema_fault(nested(depth)), PMLSyntaxError)


def test_prompts_are_limited_as_well() -> None:
    for depth in (MAX_DEPTH, 300, 5000):
        assert isinstance(prompt_fault(f"<prompt>{'<a>' * depth}{'</a>' * depth}</prompt>"), PMLSyntaxError)


def test_a_text_too_large_for_libxml2_is_an_error_and_never_shortened() -> None:
    fault = schema_fault(f'<schema name="s"><module name="m">{"x" * 11_000_000}</module></schema>')
    assert isinstance(fault, PMLSyntaxError)
    assert len(str(fault)) < 1000
    [module] = parse_schema(f'<schema name="s"><module name="m">{"x" * 9_900_000}</module></schema>').children
    assert module == Module("m", (Text("x" * 9_900_000),))


def test_spans_point_at_what_they_name() -> None:
    text = (
        '<schema name="s">\n  <!-- é -->é <module\n   name="a"><![CDATA[\n  x]]> <parameter name="p"\n length="3"/>\r\n'
        " y</module>\n</schema>"
    )
    schema = parse_schema(text)
    hello, module = schema.children
    assert isinstance(module, Module)
    x, parameter, y = module.children
    spans = [node.span for node in (schema, hello, module, x, parameter, y)]
    assert [(span.line, span.column) for span in spans if span] == [(1, 1), (2, 13), (2, 15), (4, 3), (4, 8), (6, 2)]


def test_spans_far_down() -> None:
    fault = schema_fault(f'<schema name="s">{chr(10) * 70_000}   <module/></schema>')
    assert places(fault) == ["70001:4"]


def test_faults_of_a_prompt_and_a_schema_taken_for_each_other() -> None:
    fault = prompt_fault('<schema name="s"/>')
    assert (fault.message, fault.hint) == ("<schema> is no prompt", "this is a schema")
    fault = schema_fault("<prompt/>")
    assert (fault.message, fault.hint) == ("<prompt> is no schema", "this is a prompt")
    assert "<b>" in fault_of(lambda: parse_prompt("<b/>")).message


def test_attributes_are_limited() -> None:
    attributes = " ".join(f'a{number}=""' for number in range(1001))
    fault = schema_fault(f'<schema name="s">\n<module {attributes}/></schema>')
    assert fault.message == "<module> has more than 1000 attributes"
    assert places(fault) == ["2:1"]


def test_places_of_faults_lie_in_the_text() -> None:
    """libxml2 counts a lone carriage return in an XML declaration as a line, and we do not."""
    text = '<?xml v\rersion="1.0"?><schema name="s"/>'
    fault = schema_fault(text)
    assert fault.line == 1
    assert 1 <= (fault.column or 0) <= len(text) + 1
