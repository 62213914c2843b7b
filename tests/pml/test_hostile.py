"""Whatever comes in: a value or a typed error, in bounded time, and never another exception."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from promptcache.errors import PMLError, PromptError
from promptcache.pml import Prompt, Schema, bind, parse_prompt, parse_schema, read_prompt, read_schema
from tests.pml.faults import fault_of
from tests.strategies import prompts, schemas

# A few hundred in the normal run.
QUICK = settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
LONG = settings(max_examples=10_000, deadline=None, suppress_health_check=list(HealthCheck))

SCHEMA = """<?xml version="1.0" encoding="UTF-8"?>
<schema name="trip"> text &amp; <!-- c -->
  <user>Plan <module name="plan" cache="false">For <param name="days" len="5" scaffold="x" default="y"/> days</module>
  <union scaffold="a"><module name="a">A</module><union><module name="b" xml:space="preserve"> <![CDATA[<&]]> </module>
  </union></union></user> <assistant>&#65;</assistant> <scaffold modules="a plan"/></schema>"""
PROMPT = """<prompt schema="trip" repair="full"> text <plan days="three &lt;"/> more &amp; <!-- c --> <b/>
  <![CDATA[<x>]]>
  <user>Hello</user><assistant xml:space="preserve"> x </assistant></prompt>"""

_CHARACTERS = "<>&\"'/=![]-?; \n\r\t\0\x1baé\ud800\ufffe\U0001f600"
_MARKUP = re.findall(
    r"\S+",
    """<!-- --> <![CDATA[ ]]> <? ?> </ /> &#0; &#xD800; &x; &amp; xmlns='u' xmlns:p='u' p: xml:
    </module> <union> </union> <user> </user> <a/> <prompt> 中文""",
)
_ELEMENTS = [
    "<!DOCTYPE s>",
    "<!ENTITY x 'y'>",
    "<module name='m'>",
    "<schema name='s'>",
    "<param name='p' len='3'/>",
    "<scaffold modules='a'/>",
    " src='x'",
    " name='a'",
    " xml:space='preserve'",
]
TOKENS = st.sampled_from([*_CHARACTERS, *_MARKUP, *_ELEMENTS])


@st.composite
def mutated(draw: st.DrawFn, text: str) -> str:
    """`text` with a few pieces cut out, put in, doubled or swapped."""
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 12)))
        piece = draw(st.one_of(st.just(""), TOKENS, st.just(text[start:end] * 2), st.just(text[start:end][::-1])))
        text = text[:start] + piece + text[end:]
    return text


def attempt(action: Callable[[], object]) -> None:
    """Runs `action`; any error but a typed one, with a place inside its text, fails the test."""
    try:
        action()
    except PMLError as fault:
        for each in (fault, *fault.others):
            str(each).encode()
            if each.span:
                lines = each.span.source.text.split("\n")
                assert 1 <= each.span.line <= len(lines)
                assert 1 <= each.span.column <= len(lines[each.span.line - 1]) + 1


def parse_both(text: str) -> None:
    attempt(lambda: parse_schema(parse_schema(text).to_xml()))
    attempt(lambda: parse_prompt(text))
    attempt(lambda: bind(parse_prompt(text), parse_schema(SCHEMA)))


def read_both(folder: Path, data: bytes) -> None:
    file = folder / "x.xml"
    file.write_bytes(data)
    attempt(lambda: read_schema(file))
    attempt(lambda: read_prompt(file))


soup = st.lists(TOKENS, max_size=30).map("".join)
hostile = st.one_of(
    soup,
    soup.map(lambda text: f"<schema name='s'>{text}</schema>"),
    soup.map(lambda text: f"<prompt schema='trip'>{text}</prompt>"),
    mutated(SCHEMA),
    mutated(PROMPT),
    st.text(max_size=60),
)
raw = st.one_of(st.binary(max_size=80), hostile.map(lambda text: text.encode("utf-8", "surrogatepass")))


@QUICK
@given(hostile)
def test_texts(text: str) -> None:
    parse_both(text)


@QUICK
@given(data=raw)
def test_files(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    read_both(tmp_path_factory.getbasetemp(), data)


@QUICK
@given(st.data())
def test_prompts_bind_to_their_schema(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    prompt = data.draw(prompts(schema))
    bound = bind(prompt, schema)
    assert list(bound.repeats()) == []
    assert [item.path for item in bound.imports()] == list(dict.fromkeys(item.path for item in bound.imports()))
    assert all(schema.module(item.path) == item.module for item in bound.imports())


@QUICK
@given(
    st.lists(st.one_of(st.text(max_size=8), st.sampled_from(["plan", "a", "b", "plan[1]", "a/b"])), max_size=4),
    st.data(),
)
def test_prompts_built_in_python(imports: list[str], data: st.DataObject) -> None:
    arguments = data.draw(
        st.dictionaries(st.one_of(st.text(max_size=6), st.sampled_from(["days", "plan/days"])), st.text())
    )
    attempt(lambda: bind(Prompt("trip", imports, arguments, text=data.draw(st.text())), parse_schema(SCHEMA)))


@pytest.mark.slow
@LONG
@given(hostile)
def test_texts_for_long(text: str) -> None:
    parse_both(text)


@pytest.mark.slow
@LONG
@given(data=raw)
def test_files_for_long(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    read_both(tmp_path_factory.getbasetemp(), data)


@pytest.mark.slow
@settings(LONG, max_examples=3000)
@given(schemas())
def test_round_trip_for_long(schema: Schema) -> None:
    assert parse_schema(schema.to_xml()) == schema


MANY = 10_000


@pytest.mark.parametrize(
    "text",
    [
        "<schema name='s'>" + "<b/>" * MANY,
        "<schema name='s'>" + "< " * MANY + "</schema>",
        "<schema name='s'>" + "&x;" * MANY + "</schema>",
        "<schema name='s'>" + "<a>" * MANY,
        "<schema name='s'>" + "<b x='1'/>" * MANY + "</schema>",
        "<schema name='s' " + " ".join(f"a{n}=''" for n in range(MANY)) + "/>",
        "<schema name='s'>" + "<module name='m'/>" * MANY + "</schema>",
        "<schema name='s'>" + f"<module name='{'m' * MANY}x'/>" * 20 + "</schema>",
        "<schema name='s' xml:space='preserve'><module name='m'/>" + "<scaffold modules='m'/> x" * MANY + "</schema>",
        "<schema name='s'><module name='m'/><scaffold modules='" + "m " * MANY + "'/></schema>",
        "<!-- -->" * MANY + "<schema name='s'/>",
        "<!-- -->" * MANY + "<!DOCTYPE s><schema name='s'/>",
        "<schema name='s'>" + "<!-- -->" * MANY + "</schema>",
        "<schema name='s'>" + "&#32;" * MANY + "</schema>",
        "<schema name='s'>" + "\n \t" * MANY + "x</schema>",
        "<schema name='s'>" + "\0" * MANY + "</schema>",
        "<schema name='s'>" + '"' * MANY + "<" + "'" * MANY + "</schema>",
        "<prompt schema='trip'>" + "<plann/>" * MANY + "</prompt>",
        "<prompt schema='trip'>" + "<plan/>\nx" * MANY + "</prompt>",
        "<prompt schema='trip'>" + "<user/>" * MANY + "<plan/></prompt>",
    ],
    ids=range(20),
)
def test_time_is_linear_in_the_size_of_a_text(text: str) -> None:
    started = time.process_time()
    attempt(lambda: parse_schema(text) if "<schema" in text else bind(parse_prompt(text), parse_schema(SCHEMA)))
    assert time.process_time() - started < 5


def test_time_is_linear_in_the_size_of_a_prompt() -> None:
    names = [f"p{number}" for number in range(2000)]
    written = "".join(f"<param name='{name}' len='1'/>" for name in names)
    schema = parse_schema(f"<schema name='s'><module name='m'>{written}</module></schema>")
    imports = ["m", *(f"m[{number}]" for number in range(1, 200))]
    arguments = {f"m[{number}]/{name}": "x" for number in range(200) for name in names[:50]}
    started = time.process_time()
    assert bind(Prompt("s", imports, arguments), schema)
    assert bind(Prompt("s", ["m"], dict.fromkeys(names, "x")), schema)
    assert isinstance(
        fault_of(lambda: bind(Prompt("s", ["m"], {f"{name}x": "x" for name in names}), schema)), PromptError
    )
    assert time.process_time() - started < 5
