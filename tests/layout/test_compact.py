"""Positions of the compact policy, computed by hand. Ids are bytes."""

from __future__ import annotations

import pytest

from promptcache.errors import LayoutError, PromptError
from promptcache.layout.encodings.key import KeyContext
from promptcache.layout.layout import SchemaLayout
from promptcache.layout.plan import RequestPlan
from promptcache.layout.policies.compact import Compact
from promptcache.layout.policies.reserved import Reserved
from promptcache.models.tokenizer import HFTokenizer
from promptcache.pml import Prompt, bind, parse_prompt, parse_schema
from tests.tiny import BOS, IM_END, IM_START, UNK, byte_tokenizer

TOKENIZER = HFTokenizer(byte_tokenizer())
CONTEXT = KeyContext(model="m", tokenizer="t", dtype="float32")


def lay_out(text: str, max_positions: int | None = None, *, bos: bool = False) -> SchemaLayout:
    tokenizer = HFTokenizer(byte_tokenizer(bos=True)) if bos else TOKENIZER
    return Compact().lay_out(
        parse_schema(text), tokenizer, encoding="isolated", context=CONTEXT, max_positions=max_positions
    )


def plan(layout: SchemaLayout, prompt: str | Prompt, max_positions: int | None = None) -> RequestPlan:
    parsed = parse_prompt(prompt) if isinstance(prompt, str) else prompt
    return Compact().plan(layout, bind(parsed, layout.schema), TOKENIZER, max_positions=max_positions)


def text_of(made: RequestPlan) -> bytes:
    """The prompt's bytes; its positions must run from 0 without gaps."""
    assert list(made.position_ids) == list(range(made.num_tokens))
    return bytes(made.token_ids)


THREE = (
    '<schema name="s"><module name="a">aaa</module><module name="b">bb</module>##'
    '<module name="c">c</module><module name="d">dddd</module></schema>'
)


def test_imports_stand_as_the_prompt_lists_them_without_gaps():
    layout = lay_out(THREE)
    assert text_of(plan(layout, '<prompt schema="s"><b/><a/><d/><c/>?</prompt>')) == b"bbaaa##ddddc?"
    assert text_of(plan(layout, '<prompt schema="s"><c/>?</prompt>')) == b"##c?"
    assert text_of(plan(layout, '<prompt schema="s">?</prompt>')) == b"##?"


def test_each_module_is_encoded_from_position_0():
    layout = lay_out(THREE)
    assert {(s.owner, s.start) for s in layout.segments.values()} == {("", 0), ("a", 0), ("b", 0), ("c", 0), ("d", 0)}
    made = plan(layout, '<prompt schema="s"><b/><a/><d/>?</prompt>')
    assert [(run.start, run.shift) for run in made.runs if run.kind == "reused"] == [(0, 0), (2, 2), (5, 5), (7, 7)]


def test_repeats_are_allowed():
    layout = lay_out(THREE)
    assert text_of(plan(layout, '<prompt schema="s"><a/><b/><a/><a/>?</prompt>')) == b"aaabbaaaaaa##?"


def test_an_order_that_crosses_a_fence_is_an_error_that_names_both():
    with pytest.raises(PromptError, match="'a' cannot stand behind 'c'") as caught:
        plan(lay_out(THREE), '<prompt schema="s"><c/>\n<a/>?</prompt>')
    assert caught.value.span is not None and caught.value.span.line == 2
    assert "import 'a' first" in str(caught.value.hint)


def test_new_text_stands_behind_the_import_before_it_and_at_the_start_before_the_first():
    layout = lay_out(THREE)
    made = plan(layout, '<prompt schema="s">1<b/>2<a/>3<d/>4<c/>5</prompt>')
    assert text_of(made) == b"1bb2aaa3##dddd4c5"
    assert [bytes(run.ids) for run in made.runs if run.kind == "fresh"] == [b"1", b"2", b"3", b"4", b"5"]


def test_at_the_start_new_text_stands_directly_before_the_first_import():
    assert text_of(plan(lay_out(THREE), '<prompt schema="s">1<c/>2</prompt>')) == b"##1c2"


def test_text_behind_the_last_import_stands_at_the_very_end():
    layout = lay_out('<schema name="s"><module name="a">a</module>###</schema>')
    assert text_of(plan(layout, '<prompt schema="s"><a/>?</prompt>')) == b"a###?"


def test_an_argument_takes_only_what_it_needs_and_none_takes_nothing():
    layout = lay_out('<schema name="s"><module name="a">x<parameter name="p" length="5"/>y</module></schema>')
    first, second = sorted(layout.segments.values(), key=lambda s: s.start)
    assert (first.start, second.start) == (0, 6)
    assert layout.passes[0].ids == (*b"x", *[UNK] * 5, *b"y")
    assert text_of(plan(layout, '<prompt schema="s"><a p="12"/>?</prompt>')) == b"x12y?"
    made = plan(layout, '<prompt schema="s"><a/>?</prompt>')
    assert text_of(made) == b"xy?"
    assert [run.shift for run in made.runs if run.kind == "reused"] == [0, -5]


def test_nested_modules_move_inside_their_parent():
    layout = lay_out(
        '<schema name="s"><module name="a">[<module name="x">x</module>'
        '<union><module name="y">yy</module><module name="z">z</module></union>]'
        '<module name="w">w</module></module></schema>'
    )
    assert text_of(plan(layout, '<prompt schema="s"><a><z/><x/><w/></a>?</prompt>')) == b"[zx]w?"
    assert text_of(plan(layout, '<prompt schema="s"><a><y/></a><a><x/><x/></a>?</prompt>')) == b"[yy][xx]?"
    with pytest.raises(PromptError, match="'a/x' cannot stand behind 'a/w'"):
        plan(layout, '<prompt schema="s"><a><w/><x/></a>?</prompt>')


def test_an_uncached_module_is_fresh_at_its_place():
    layout = lay_out('<schema name="s"><module name="a">aa</module><module name="n" cache="false">nn</module></schema>')
    made = plan(layout, '<prompt schema="s"><n/><a/>?</prompt>')
    assert text_of(made) == b"nnaa?"
    assert [(bytes(run.ids), run.kind) for run in made.runs] == [(b"nn", "fresh"), (b"aa", "reused"), (b"?", "fresh")]


def test_turns_in_modules_go_with_them():
    layout = lay_out(
        '<schema name="s"><system>S</system>'
        '<module name="a"><user>a</user><assistant>A</assistant></module>'
        '<module name="b"><user>b</user><assistant>B</assistant></module></schema>'
    )
    made = plan(layout, '<prompt schema="s"><b/><a/><b/><user>?</user></prompt>')
    spelled = "".join({IM_START: "<", IM_END: ">"}.get(i) or chr(i) for i in made.token_ids)
    assert spelled == (
        "<system\nS>\n<user\nb>\n<assistant\nB>\n<user\na>\n<assistant\nA>\n"
        "<user\nb>\n<assistant\nB>\n<user\n?>\n<assistant\n"
    )
    assert made.count("reused") > made.count("fresh")


def test_bos_is_seen_by_what_no_text_precedes_and_stands_once():
    layout = lay_out('<schema name="s"><module name="a">aa</module>##<module name="b">b</module></schema>', bos=True)
    found = {segment.owner: segment for segment in layout.segments.values() if segment.owner}
    assert (found["a"].start, found["b"].start) == (1, 0)
    made = plan(layout, '<prompt schema="s"><a/><a/><b/>?</prompt>')
    assert made.token_ids == (BOS, *b"aaaa##b?")
    assert [run.shift for run in made.runs if run.kind == "reused"] == [0, 0, 2, 4, 7]


def test_only_the_prompt_must_fit():
    many = "".join(f'<module name="m{n}">{"x" * 9}</module>' for n in range(20))
    text = f'<schema name="s">{many}</schema>'
    with pytest.raises(LayoutError, match="spans 180 positions") as caught:
        Reserved().lay_out(parse_schema(text), TOKENIZER, encoding="isolated", context=CONTEXT, max_positions=40)
    assert "compact" in str(caught.value.hint)
    layout = lay_out(text, max_positions=40)
    assert plan(layout, '<prompt schema="s"><m3/><m19/><m0/><m3/>????</prompt>', 40).num_tokens == 40
    with pytest.raises(LayoutError, match="takes 41 tokens and the model has 40"):
        plan(layout, '<prompt schema="s"><m3/><m19/><m0/><m3/>?????</prompt>', 40)


def test_a_module_longer_than_the_model_is_named():
    text = f'<schema name="s"><module name="a">a</module><module name="long">{"x" * 41}</module></schema>'
    with pytest.raises(LayoutError, match="module 'long' is encoded in a pass of 41 tokens"):
        lay_out(text, max_positions=40)


def test_equal_text_under_an_equal_view_has_one_key_wherever_it_stands():
    left = lay_out('<schema name="l"><module name="a">same text</module></schema>')
    right = lay_out(
        f'<schema name="r"><module name="z">{"z" * 30}</module><module name="b">same text</module>'
        '<module name="c">same text</module><module name="d">same text.</module></schema>'
    )
    keys = {segment.owner: segment.key for segment in (*left.segments.values(), *right.segments.values())}
    assert keys["a"] == keys["b"] == keys["c"] != keys["d"]


def test_a_prompt_that_is_its_first_module_alone_is_exact_and_others_are_not():
    layout = lay_out(THREE)
    assert plan(
        lay_out('<schema name="s"><module name="a">aa</module></schema>'), '<prompt schema="s"><a/>?</prompt>'
    ).exact
    assert not plan(layout, '<prompt schema="s"><a/>?</prompt>').exact
