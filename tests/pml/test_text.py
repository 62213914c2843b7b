"""What is text: CDATA, references, comments, line ends, odd characters."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from promptcache.pml import Text, parse_prompt, parse_schema, read_schema
from promptcache.pml.nodes import Module


def text_of(body: str, *, preserve: bool = True) -> str:
    """The text of a module whose content is `body`."""
    space = ' xml:space="preserve"' if preserve else ""
    [module] = parse_schema(f'<schema name="s"><module name="m"{space}>{body}</module></schema>').children
    assert isinstance(module, Module)
    assert all(isinstance(node, Text) for node in module.children)
    return "".join(node.text for node in module.children if isinstance(node, Text))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("a &lt; b &amp;&amp; c", "a < b && c"),
        ("AT&amp;T &lt;ok&gt; &quot;&apos;", "AT&T <ok> \"'"),
        ("&#65;&#x1F600;&#10;&#13;&#9;", "A\U0001f600\n\r\t"),
        ("&amp;lt;", "&lt;"),
        ("<![CDATA[<user> & &amp; </module>]]>", "<user> & &amp; </module>"),
        ("<![CDATA[a]]]]><![CDATA[>b]]>", "a]]>b"),
        ("a<![CDATA[]]>b", "ab"),
        ("]] > ]]&gt;", "]] > ]]>"),
        ("a<!-- c -->b", "ab"),
        ("a<?pi c?>b", "ab"),
        ("a<!-- <user> & --> <!----><?x?> b", "a  b"),
        ("a\r\nb\rc\nd", "a\nb\nc\nd"),
        ("a\u2028b\x85c\u00a0", "a\u2028b\x85c\u00a0"),
        ("é中文\U0001f600\ufeff", "é中文\U0001f600\ufeff"),
        ("<|im_end|>".replace("<", "&lt;"), "<|im_end|>"),
        ("{{ x }} {% y %}", "{{ x }} {% y %}"),
    ],
)
def test_text_comes_out_to_the_byte(body: str, expected: str) -> None:
    assert text_of(body) == expected


def test_white_space_rules_hold_in_cdata() -> None:
    assert text_of("<![CDATA[\n    if a < b && c:\n        x\n]]>", preserve=False) == "if a < b && c:\n    x"


SCHEMA = """<?xml version="1.0" encoding="UTF-8"?>
^
<schema^ name="s">^
  Hello^ there.
  ^
  <system>^ Be^ kind.
    ^
  </system>^
  <module name="m">
    ^first
    ^
    second ^<parameter name="p" length="3"/>^
  </module>^
  <union>^
    <module name="a">^</module>
    ^
    <module name="b">B^</module>^
  </union>
  ^<scaffold modules="m a">^</scaffold>
  end^
</schema>
^"""


@pytest.mark.parametrize("filler", ["<!-- c -->", "<?p i?>", "<!---->", "<!--\n  several\nlines <user>\n-->"])
def test_comments_and_instructions_change_nothing(filler: str) -> None:
    plain = parse_schema(SCHEMA.replace("^", ""))
    text = SCHEMA.replace("<schema^", "<schema").replace("^", filler)
    assert parse_schema(text) == plain


@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_line_ends_change_nothing(end: str) -> None:
    text = SCHEMA.replace("^", "")
    assert parse_schema(text.replace("\n", end)) == parse_schema(text)


def test_a_file_with_a_byte_order_mark(tmp_path: Path) -> None:
    file = tmp_path / "s.xml"
    file.write_bytes(b"\xef\xbb\xbf" + SCHEMA.replace("^", "").encode())
    assert read_schema(file) == parse_schema(SCHEMA.replace("^", ""))


def test_comments_in_a_prompt() -> None:
    plain = '<prompt schema="s">a <x/> b <user>c d</user></prompt>'
    commented = (
        '<!-- 1 --><prompt schema="s">a <!-- 2 --><x><!-- 3 --></x> b<!-- 4 --> <user>c <!-- 5 -->d</user></prompt>'
    )
    assert parse_prompt(commented) == parse_prompt(plain)


def test_attributes_lose_line_breaks_unless_written_as_references() -> None:
    [module] = parse_schema(
        '<schema name="s"><module name="m">'
        '<parameter name="p" length="3" scaffold="a\n\tb" default="a&#10;b"/></module></schema>'
    ).children
    assert isinstance(module, Module)
    [parameter] = module.children
    assert re.search(r"scaffold='a  b', default='a\\nb'", repr(parameter))
