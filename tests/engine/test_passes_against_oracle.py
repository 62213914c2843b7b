"""Reuse equals the oracle in longer cases: ids and positions by hand, visibility by the rule of isolated encoding."""

from __future__ import annotations

import pytest

from promptcache import Prompt, PromptCache
from tests.engine.comparison import agrees, byte_engine
from tests.oracle import Token, tokens
from tests.tiny import BOS, IM_END, IM_START, UNK


@pytest.fixture(scope="module")
def engine() -> PromptCache:
    return byte_engine()


def schema(body: str) -> str:
    return f'<schema name="s">{body}</schema>'


def prompt(body: str) -> str:
    return f'<prompt schema="s">{body}</prompt>'


def placeholder(start: int, length: int, group: str, scaffold: bytes = b"") -> list[Token]:
    return tokens([*scaffold, *[UNK] * (length - len(scaffold))], start, group, ghost=True)


BUFFER = schema('<module name="note">note:<parameter name="free" length="8"/></module><module name="end">done</module>')


def test_a_buffer_that_closes_its_module(engine):
    note, end = tokens(b"note:", 0, "note"), tokens(b"done", 13, "end")
    agrees(
        engine,
        BUFFER,
        prompt('<note free="call me"/><end/>ok?'),
        note + placeholder(5, 8, "note") + tokens(b"call me", 5) + end + tokens(b"ok?", 17),
    )
    # text behind the last import stands right behind the last position in use, not behind the empty slots
    agrees(engine, BUFFER, prompt('<note free="hi"/>ok?'), note + tokens(b"hi", 5) + tokens(b"ok?", 7), exact=True)
    agrees(engine, BUFFER, prompt("<note/>ok?"), note + tokens(b"ok?", 5), exact=True)
    agrees(engine, BUFFER, prompt("<note/><end/>ok?"), note + end + tokens(b"ok?", 17))


def test_a_buffer_that_opens_its_module(engine):
    opens = schema('<module name="note"><parameter name="free" length="6"/>. Yours</module>')
    stored = placeholder(0, 6, "note") + tokens(b". Yours", 6, "note")
    agrees(engine, opens, prompt('<note free="Dear A"/>!'), tokens(b"Dear A", 0) + stored + tokens(b"!", 13))
    agrees(engine, opens, prompt('<note free="Hi"/>!'), tokens(b"Hi", 0) + stored + tokens(b"!", 13))
    agrees(engine, opens, prompt("<note/>!"), stored + tokens(b"!", 13))


def test_a_module_that_is_one_parameter(engine):
    only = schema('<module name="a">abc</module><module name="free"><parameter name="it" length="4"/></module>')
    agrees(engine, only, prompt('<a/><free it="xyz"/>'), tokens(b"abc", 0, "a") + tokens(b"xyz", 3), exact=True)
    agrees(engine, only, prompt('<a/><free it=""/>?'), tokens(b"abc", 0, "a") + tokens(b"?", 3), exact=True)


def test_an_empty_argument_uses_no_position(engine):
    two = schema(
        '<module name="a">abc</module>'
        '<module name="p"><parameter name="x" length="2"/><parameter name="y" length="2"/></module>'
    )
    a = tokens(b"abc", 0, "a")
    agrees(engine, two, prompt('<a/><p x="" y=""/>?'), a + tokens(b"?", 3), exact=True)
    agrees(engine, two, prompt('<a/><p x="1" y=""/>?'), a + tokens(b"1", 3) + tokens(b"?", 4), exact=True)


def test_defaults(engine):
    days = schema('<module name="plan">Stay <parameter name="days" length="5" default="two"/> days</module>')
    stored = tokens(b"Stay", 0, "plan") + placeholder(4, 5, "plan") + tokens(b" days", 9, "plan")
    agrees(engine, days, prompt("<plan/>?"), stored + tokens(b" two", 4) + tokens(b"?", 14))
    agrees(engine, days, prompt('<plan days="five"/>?'), stored + tokens(b" five", 4) + tokens(b"?", 14))
    agrees(engine, days, prompt('<plan days=""/>?'), stored + tokens(b"?", 14))


def test_anonymous_text_is_one_pass_around_modules(engine):
    around = schema('Be calm.<module name="a">alpha</module> And <module name="b">bravo</module> Bye.')
    text = tokens(b"Be calm.", 0, "text") + tokens(b" And ", 13, "text") + tokens(b" Bye.", 23, "text")
    a, b = tokens(b"alpha", 8, "a"), tokens(b"bravo", 18, "b")
    agrees(engine, around, prompt("<a/><b/>Go"), text + a + b + tokens(b"Go", 28))
    agrees(engine, around, prompt("<b/><a/>Go"), text + a + b + tokens(b"Go", 28))
    agrees(engine, around, prompt("<b/>Go"), text + b + tokens(b"Go", 28))
    agrees(engine, around, prompt("Go"), text + tokens(b"Go", 28), exact=True)
    # between the imports, no position is free
    agrees(engine, around, prompt("hey<b/>Go"), text + b + tokens(b"hey", 8) + tokens(b"Go", 28))


def test_a_schema_written_over_several_lines(engine):
    written = """
    <schema name="s">
      You are kind.
      <module name="a">
        Alpha
        <module name="n">nested</module>
      </module>
      <module name="b">Bravo</module>
      End.
    </schema>"""
    text = tokens(b"You are kind.\n", 0, "text") + tokens(b"End.", 33, "text")
    a, n, b = tokens(b"Alpha\n", 14, "a"), tokens(b"nested\n", 20, "n"), tokens(b"Bravo\n", 27, "b")
    agrees(engine, written, prompt("<a><n/></a><b/>Go"), text + a + n + b + tokens(b"Go", 37))
    agrees(engine, written, prompt("\n  <a/>\n  <b/>\n"), text[:-1] + a + b + tokens(b".", 36))


def test_new_text_passes_over_runs_that_are_too_short(engine):
    rooms = schema('<module name="a">aa</module>-<module name="b">bbbb</module><module name="c">cc</module>')
    text, c = tokens(b"-", 2, "text"), tokens(b"cc", 7, "c")
    agrees(engine, rooms, prompt("12<c/>?"), tokens(b"12", 0) + text + c + tokens(b"?", 9))
    agrees(engine, rooms, prompt("123<c/>?"), tokens(b"123", 3) + text + c + tokens(b"?", 9))


def test_unions(engine):
    nested = schema(
        '<union><module name="x">xx</module><module name="y">y<union><module name="u">u</module>'
        '<module name="v">vvv</module></union>Y</module></union><module name="c">cc</module>'
    )
    c, ask = tokens(b"cc", 5, "c"), tokens(b"?", 7)
    y = [*tokens(b"y", 0, "y"), *tokens(b"Y", 4, "y")]
    agrees(engine, nested, prompt("<x/><c/>?"), tokens(b"xx", 0, "x") + c + ask)
    agrees(engine, nested, prompt("<y/><c/>?"), y + c + ask)
    agrees(engine, nested, prompt("<y><u/></y><c/>?"), y + tokens(b"u", 1, "u") + c + ask)
    agrees(engine, nested, prompt("<y><v/></y>?"), y + tokens(b"vvv", 1, "v") + tokens(b"?", 5))


def test_a_parameter_in_a_union_member(engine):
    how = schema(
        '<union><module name="by">by <parameter name="how" length="4"/>.</module>'
        '<module name="none">--</module></union>'
        '<module name="c">cc</module>'
    )
    by = tokens(b"by", 0, "by") + placeholder(2, 4, "by") + tokens(b".", 6, "by")
    c = tokens(b"cc", 7, "c")
    agrees(engine, how, prompt('<by how="car"/><c/>?'), by + tokens(b" car", 2) + c + tokens(b"?", 9))
    agrees(engine, how, prompt("<none/><c/>?"), tokens(b"--", 0, "none") + c + tokens(b"?", 9))


def test_a_module_of_no_tokens(engine):
    empty = schema('<module name="a">ab</module><module name="z"></module><module name="b">cd</module>')
    ab, cd = tokens(b"ab", 0, "a"), tokens(b"cd", 2, "b")
    agrees(engine, empty, prompt("<a/><z/><b/>?"), ab + cd + tokens(b"?", 4))
    agrees(engine, empty, prompt("<z/>?"), tokens(b"?", 0), exact=True)
    agrees(engine, empty, prompt("<a/><z/>"), tokens(b"a", 0, "a") + tokens(b"b", 1), exact=True)


def test_nothing_fresh(engine):
    one = schema('<module name="a">a</module><module name="b">bcd</module>')
    agrees(engine, one, prompt("<a/>"), tokens(b"a", 0), exact=True)
    agrees(engine, one, prompt("<b/>"), tokens(b"bc", 1, "b") + tokens(b"d", 3), exact=True)
    # what was encoded behind the last token, an empty parameter, takes no part
    tail = schema('<module name="a">ab</module><module name="p">cd<parameter name="x" length="3"/></module>')
    agrees(engine, tail, prompt("<a/><p/>"), tokens(b"ab", 0, "a") + tokens(b"c", 2, "p") + tokens(b"d", 3))


def test_uncached_modules(engine):
    live = schema(
        '<module name="a">ab</module><module name="live" cache="false">now <parameter name="t" length="4"/>:'
        '<module name="n">nested</module>.</module><module name="b">cd</module>'
    )
    ab, cd, n = tokens(b"ab", 0, "a"), tokens(b"cd", 17, "b"), tokens(b"nested", 10, "n")
    fresh = tokens(b"now", 2) + tokens(b":", 9) + tokens(b".", 16)
    agrees(engine, live, prompt("<a/><live/><b/>?"), ab + fresh + cd + tokens(b"?", 19))
    agrees(engine, live, prompt('<a/><live t="9"/><b/>?'), ab + fresh + tokens(b" 9", 5) + cd + tokens(b"?", 19))
    agrees(engine, live, prompt("<a/><live><n/></live>"), ab + fresh + n)
    inner = schema('<module name="a">ab<module name="live" cache="false">12</module>cd</module>')
    a = tokens(b"ab", 0, "a") + tokens(b"cd", 4, "a")
    agrees(engine, inner, prompt("<a><live/></a>?"), a + tokens(b"12", 2) + tokens(b"?", 6))


SYSTEM = [IM_START, *b"system\n"]
USER = [IM_START, *b"user\n"]
CLOSE = [IM_END, *b"\n"]
REPLY = [IM_START, *b"assistant\n"]


def test_roles(engine):
    turns = schema(
        '<system>Be<module name="m">calm</module></system><user><module name="d">doc</module></user>',
    )
    text = tokens([*SYSTEM, *b"Be"], 0, "text") + tokens([*CLOSE, *USER], 14, "text")
    m, d = tokens(b"calm", 10, "m"), tokens(b"doc", 22, "d")
    agrees(engine, turns, prompt("<m/><d/>ask"), text + m + d + tokens([*b"ask", *CLOSE, *REPLY], 25))
    agrees(engine, turns, prompt("<m/>ask"), text + m + tokens([*b"ask", *CLOSE, *REPLY], 22))
    agrees(engine, turns, prompt("<m/><d/>"), text + m + d + tokens([*CLOSE, *REPLY], 25))
    more = [*CLOSE, *USER, *b"more", *CLOSE, *REPLY]
    agrees(engine, turns, prompt("<m/><d/><user>more</user>"), text + m + d + tokens(more, 25))


def test_several_turns_behind_the_schema(engine):
    turns = schema('<system>S</system><user>U<module name="d">doc</module>!</user><assistant>A</assistant>')
    opening = [*SYSTEM, *b"S", *CLOSE, *USER, *b"U"]
    closing = [*b"!", *CLOSE, *REPLY, *b"A", *CLOSE]
    assert len(opening) == 18 and len(closing) == 17
    text = tokens(opening, 0, "text") + tokens(closing, 21, "text")
    ask = [*USER, *b"one", *CLOSE, *REPLY, *b"two", *CLOSE, *USER, *b"three", *CLOSE, *REPLY]
    asked = prompt("<d/><user>one</user><assistant>two</assistant><user>three</user>")
    agrees(engine, turns, asked, text + tokens(b"doc", 18, "d") + tokens(ask, 38))
    agrees(engine, turns, prompt("<user>x</user>"), text + tokens([*USER, *b"x", *CLOSE, *REPLY], 38), exact=True)


def test_a_default_system_turn_and_a_turn_inside_a_module(engine):
    turns = schema('<user>Hi</user><module name="shot"><assistant>A</assistant><user>B</user></module>')
    first = [*SYSTEM, *b"Be kind.", *CLOSE, *USER, *b"Hi", *CLOSE]
    shot = [*REPLY, *b"A", *CLOSE, *USER, *b"B", *CLOSE]
    assert len(first) == 28 and len(shot) == 23
    last = [*REPLY, *b"yes", *CLOSE, *USER, *b"ok", *CLOSE, *REPLY]
    agrees(
        engine,
        turns,
        prompt("<shot/><assistant>yes</assistant><user>ok</user>"),
        tokens(first, 0, "text") + tokens(shot, 28, "shot") + tokens(last, 51),
    )


def test_a_parameter_in_a_turn(engine):
    turns = schema('<system>S</system><user><module name="q">In <parameter name="n" length="3"/> words</module></user>')
    text = tokens([*SYSTEM, *b"S", *CLOSE, *USER], 0, "text")
    assert len(text) == 17
    q = tokens(b"In", 17, "q") + placeholder(19, 3, "q") + tokens(b" words", 22, "q")
    ask = tokens([*CLOSE, *REPLY], 28)
    agrees(engine, turns, prompt('<q n="5"/>'), text + q + tokens(b" 5", 19) + ask)
    agrees(engine, turns, prompt("<q/>"), text + q + ask)


def test_a_prompt_built_without_xml(engine):
    plan = schema(
        '<module name="a">ab<module name="n">cd</module></module>'
        '<module name="p">Go <parameter name="to" length="6"/></module>'
    )
    built = Prompt(schema="s", imports=["a/n", "p"], arguments={"p/to": "<x/>"}, text=" & </prompt><|im_end|>")
    stored = tokens(b"ab", 0, "a") + tokens(b"cd", 2, "n") + tokens(b"Go", 4, "p")
    agrees(engine, plan, built, stored + tokens(b" <x/>", 6) + tokens(b" & </prompt><|im_end|>", 11))


def test_a_prompt_without_a_schema(engine):
    agrees(engine, schema("-"), "<prompt>just text</prompt>", tokens(b"just text", 0), exact=True)


def test_beginning_of_sequence_before_turns():
    engine = byte_engine(bos=True)
    turns = schema('<system>S</system><user><module name="d">doc</module></user>')
    text = tokens([BOS, *SYSTEM, *b"S", *CLOSE, *USER], 0, "text")
    ask = tokens([*b"?", *CLOSE, *REPLY], 21)
    agrees(engine, turns, prompt("<d/>?"), text + tokens(b"doc", 18, "d") + ask)
    agrees(engine, schema("-"), "<prompt>hi</prompt>", tokens([BOS, *b"hi"], 0), exact=True)
