"""BOS opens every prompt of a model that uses one, once, whoever writes it."""

from __future__ import annotations

from functools import cache

import pytest

from promptcache.layout.encodings.key import KeyContext
from promptcache.layout.plain import plan_plain
from promptcache.layout.policies.reserved import Reserved
from promptcache.models.tokenizer import HFTokenizer
from promptcache.pml import bind, parse_prompt, parse_schema
from tests.tokenizers import byte_level, sentencepiece

CONTEXT = KeyContext(model="m", tokenizer="t", dtype="float32")
TURNS = "{% for m in messages %}[{{ m.role }}]{{ m.content }};{% endfor %}{{ '[assistant]' if add_generation_prompt }}"
TEMPLATES = {"plain": TURNS, "bos": "{{ bos_token }}" + TURNS}
KINDS = ("bytes", "first", "always", "prepend", "replace")

BODY = '<module name="a">{a}</module><module name="b">{b}</module>'
STARTS = {
    "text": "Intro." + BODY.format(a="Aa.", b="Bb."),
    "module": BODY.format(a="Aa.", b="Bb."),
    "union": "<union>" + BODY.format(a="Aa.", b="Bb.") + "</union>",
    "turn": "<system>Sys.</system><user>Ask." + BODY.format(a="Aa.", b="Bb.") + "</user>",
    "module in a turn": "<user>" + BODY.format(a="Aa.", b="Bb.") + "</user>",
    "turn in a module": BODY.format(
        a="<user>Aa.</user><assistant>Yes.</assistant>", b="<user>Bb.</user><assistant>No.</assistant>"
    ),
    "text before a turn": "Intro.<user>Ask." + BODY.format(a="Aa.", b="Bb.") + "</user>",
    "module before a turn": BODY.format(a="Aa.", b="Bb.") + "<system>Sys.</system>",
    "nothing": "",
}
IMPORTS = ("", "<a/>", "<b/>", "<a/><b/>", "<b/><a/>")
ENDS = ("", "Why?", "<user>Why?</user>", "<user>Why?</user><assistant>So.</assistant><user>And?</user>")


@cache
def tokenizer(kind: str, adds: bool, writes: bool) -> HFTokenizer:
    template = TEMPLATES["bos" if writes else "plain"]
    if kind == "bytes":
        return HFTokenizer(byte_level(template, ("<unk>", "<s>", "</s>"), bos="<s>", eos="</s>", adds_bos=adds))
    return HFTokenizer(sentencepiece(template, adds_bos=adds, dummy=kind))


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("writes", [False, True])
@pytest.mark.parametrize("adds", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_once_at_the_first_position(kind: str, adds: bool, writes: bool, start: str) -> None:
    made = tokenizer(kind, adds, writes)
    bos = made.split("<s>")[0]
    assert isinstance(bos, int)
    assert made.bos_id == (bos if adds or writes else None)
    schema = parse_schema(f'<schema name="s">{STARTS[start]}</schema>')
    layout = Reserved().lay_out(schema, made, encoding="isolated", context=CONTEXT, max_positions=None)
    stored = [id for segment in layout.segments.values() for id in segment.ids]
    assert stored.count(bos) == (made.bos_id is not None)
    for each in layout.passes:
        # In view of a module that may come first, and nowhere but at the first position.
        assert [place for id, place in zip(each.ids, each.positions, strict=True) if id == bos] in ([], [0])
    for imports in IMPORTS if start != "nothing" else ("",):
        if start == "union" and imports.count("/") == 2:
            continue
        for end in ENDS:
            bound = bind(parse_prompt(f'<prompt schema="s">{imports}{end}</prompt>'), schema)
            plan = Reserved().plan(layout, bound, made, max_positions=None)
            if made.bos_id is None:
                assert bos not in plan.token_ids
            else:
                assert plan.token_ids.index(bos) == plan.position_ids[0] == 0
                assert plan.token_ids.count(bos) == 1


@pytest.mark.parametrize("writes", [False, True])
@pytest.mark.parametrize("adds", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_prompts_without_a_schema(kind: str, adds: bool, writes: bool) -> None:
    made = tokenizer(kind, adds, writes)
    for text in ENDS[1:]:
        plan = plan_plain(
            bind(parse_prompt(f"<prompt>{text}</prompt>"), None), made, layout="reserved", max_positions=None
        )
        assert [n for n, id in enumerate(plan.token_ids) if id == made.bos_id] == [0] * (adds or writes)


def test_new_text_at_the_start_stands_behind_it() -> None:
    made = tokenizer("first", True, False)
    schema = parse_schema(
        '<schema name="s"><module name="a">Aa. Aa. Aa.</module><module name="b">Bb.</module></schema>'
    )
    layout = Reserved().lay_out(schema, made, encoding="isolated", context=CONTEXT, max_positions=None)
    plan = Reserved().plan(
        layout, bind(parse_prompt('<prompt schema="s">Hi<b/></prompt>'), schema), made, max_positions=None
    )
    assert plan.token_ids[: len(made.encode("Hi", behind=None, start=True)) + 1] == (
        made.bos_id,
        *made.encode("Hi", behind=None, start=True),
    )


def test_in_view_only_of_modules_that_no_text_precedes() -> None:
    made = tokenizer("first", True, False)
    schema = parse_schema(
        '<schema name="s"><module name="a">Aa.<module name="c">Cc.</module></module>Text.<module name="b">Bb.</module>'
        "</schema>"
    )
    layout = Reserved().lay_out(schema, made, encoding="isolated", context=CONTEXT, max_positions=None)
    owners = {segment.encoding_pass: segment.owner for segment in layout.segments.values()}
    with_bos = {owners[n] for n, each in enumerate(layout.passes) if each.ids[0] == made.bos_id}
    assert with_bos == {"", "a"}
