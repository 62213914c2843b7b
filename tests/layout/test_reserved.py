"""Positions of the reserved policy, computed by hand. Ids are bytes."""

from __future__ import annotations

import pytest

from promptcache.errors import LayoutError, PromptError, SchemaError
from promptcache.layout.encodings.key import KeyContext
from promptcache.layout.layout import SchemaLayout
from promptcache.layout.plan import RequestPlan
from promptcache.layout.policies.reserved import Reserved
from promptcache.models.tokenizer import HFTokenizer
from promptcache.pml import bind, parse_prompt, parse_schema
from tests.tiny import byte_tokenizer

TOKENIZER = HFTokenizer(byte_tokenizer())
CONTEXT = KeyContext(model="m", tokenizer="t", dtype="float32")


def lay_out(text: str, max_positions: int | None = None) -> SchemaLayout:
    return Reserved().lay_out(
        parse_schema(text), TOKENIZER, encoding="isolated", context=CONTEXT, max_positions=max_positions
    )


def plan(layout: SchemaLayout, text: str, max_positions: int | None = None) -> RequestPlan:
    prompt = bind(parse_prompt(text), layout.schema)
    return Reserved().plan(layout, prompt, TOKENIZER, max_positions=max_positions)


def placed(made: RequestPlan) -> list[tuple[int, bytes, str]]:
    return [(run.start, bytes(run.ids), run.kind) for run in made.runs]


def test_lengths_50_and_60_give_a_start_of_110():
    layout = lay_out(
        f'<schema name="s"><module name="a">{"a" * 50}</module><module name="b">{"b" * 60}</module>'
        '<module name="c">c</module></schema>'
    )
    assert layout.starts == {"": 0, "a": 0, "b": 50, "c": 110}
    assert layout.num_positions == 111 and layout.num_tokens == 111


def test_the_longest_member_counts_and_members_share_a_start():
    layout = lay_out(
        f'<schema name="s">{"x" * 10}<union><module name="a">{"a" * 7}</module><module name="b">{"b" * 30}</module>'
        f'<union><module name="c">c</module><module name="d">{"d" * 12}</module></union></union>'
        '<module name="e">e<parameter name="p" length="9"/>f</module>!</schema>'
    )
    assert layout.starts == {"": 0, "a": 10, "b": 10, "c": 10, "d": 10, "e": 40}
    assert layout.parameters == {("e", "p"): 41}
    assert [s.start for s in layout.segments.values() if s.owner == "e"] == [40, 50]
    assert [s.start for s in layout.segments.values() if s.owner == ""] == [0, 51]
    assert layout.num_positions == 52


def test_text_takes_the_first_free_run_that_is_long_enough():
    layout = lay_out(
        '<schema name="s"><module name="a">aa</module><module name="b">bbb</module>##'
        '<module name="c">cccccc</module><module name="d">d</module></schema>'
    )
    assert placed(plan(layout, '<prompt schema="s"><a/>xyz<d/></prompt>')) == [
        (0, b"aa", "reused"),
        (2, b"xyz", "fresh"),
        (5, b"##", "reused"),
        (13, b"d", "repaired"),
    ]
    # Four tokens do not fit before the anonymous text; they stand behind it.
    assert placed(plan(layout, '<prompt schema="s"><a/>wxyz<d/>!</prompt>'))[2:] == [
        (7, b"wxyz", "fresh"),
        (13, b"d", "reused"),
        (14, b"!", "fresh"),
    ]
    with pytest.raises(LayoutError, match=r"needs 7 tokens.* has 6"):
        plan(layout, '<prompt schema="s"><a/>tuvwxyz<d/></prompt>')
    assert placed(plan(layout, '<prompt schema="s">xy<b/>!</prompt>'))[0] == (0, b"xy", "fresh")


def test_text_behind_the_last_import_starts_behind_the_last_position_in_use():
    layout = lay_out('<schema name="s"><module name="a">aa</module><module name="b">bbb</module></schema>')
    assert placed(plan(layout, '<prompt schema="s"><a/>?</prompt>'))[-1] == (2, b"?", "fresh")
    assert placed(plan(layout, '<prompt schema="s"><b/><a/>?</prompt>'))[-1] == (5, b"?", "fresh")


def test_imports_may_leave_the_schemas_order_only_without_text_between():
    layout = lay_out('<schema name="s"><module name="a">aa</module><module name="b">bbb</module></schema>')
    with pytest.raises(PromptError, match="'a' stands before 'b'"):
        plan(layout, '<prompt schema="s"><b/>text<a/></prompt>')


def test_faults_of_a_prompt():
    layout = lay_out(
        '<schema name="s"><module name="a">aa<parameter name="p" length="3"/></module>'
        '<module name="b">b</module></schema>'
    )
    with pytest.raises(PromptError, match="takes 4 tokens, and its length allows 3") as caught:
        plan(layout, '<prompt schema="s">\n<a p="four"/></prompt>')
    assert caught.value.line == 2
    with pytest.raises(PromptError, match="imported twice"):
        plan(layout, '<prompt schema="s"><a/><b/><a/></prompt>')
    with pytest.raises(LayoutError, match="position 9 and the model has 8"):
        plan(layout, '<prompt schema="s"><b/>text</prompt>', max_positions=8)


def test_a_schema_that_is_too_long_names_the_module_that_crosses():
    text = (
        '<schema name="s"><module name="a">aaaa</module>\n<module name="b">bb<module name="inner">iiii</module>b'
        "</module>"
        '<module name="c">c</module></schema>'
    )
    assert lay_out(text, max_positions=13).num_positions == 13
    with pytest.raises(
        LayoutError, match=r"spans 13 positions and the model has 9; module 'b/inner' crosses"
    ) as caught:
        lay_out(text, max_positions=9)
    assert caught.value.line == 2 and "compact" in caught.value.hint


def test_placeholders_fill_a_parameter_while_encoding():
    layout = lay_out(
        '<schema name="s"><module name="a">x <parameter name="p" length="5" scaffold="two"/>y</module></schema>'
    )
    (made,) = layout.passes
    assert made.ids == (*b"x two", 256, *b"y") and made.positions == tuple(range(7))
    cut = lay_out(
        '<schema name="s"><module name="a">x<parameter name="p" length="2" scaffold="seven"/>y</module></schema>'
    )
    assert cut.passes[0].ids == tuple(b"xsey")
    assert any("cut to 2" in note.message for note in cut.notes)
    with pytest.raises(SchemaError, match="default of parameter 'p' takes 5 tokens"):
        lay_out('<schema name="s"><module name="a">x<parameter name="p" length="2" default="seven"/></module></schema>')


def test_comments_change_no_token():
    plain = lay_out('<schema name="s">one two<module name="a">x y</module></schema>')
    noisy = lay_out(
        '<!--0--><schema name="s"><!--1-->one <!--2-->two<module name="a">x<?pi?> y<!--3--></module><!--4--></schema>'
    )
    assert [s.ids for s in plain.segments.values()] == [s.ids for s in noisy.segments.values()]
