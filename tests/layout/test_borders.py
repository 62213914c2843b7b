"""Borders where a token would span both sides. The tokenizer joins "ab" and two line breaks, and nothing else."""

from __future__ import annotations

import json

import pytest
from tokenizers import Tokenizer as Core
from transformers import PreTrainedTokenizerFast

from promptcache.layout.borders import WINDOW, border_notes, prompt_border_notes
from promptcache.layout.encodings.key import KeyContext
from promptcache.layout.layout import SchemaLayout
from promptcache.layout.policies.reserved import Reserved
from promptcache.models.tokenizer import HFTokenizer
from promptcache.pml import Note, Prompt, Schema, bind, parse_prompt, parse_schema
from tests.tiny import byte_tokenizer
from tests.tokenizers import published, sentencepiece

CONTEXT = KeyContext(model="m", tokenizer="t", dtype="float32")
MARKED = "{% for m in messages %}({{ m.role }}){{ m.content }}{{ 'b' if m.role == 'user' else '' }}{% endfor %}"


def joining(template: str | None = None) -> HFTokenizer:
    wrapped = byte_tokenizer()
    rules = json.loads(wrapped.backend_tokenizer.to_str())
    rules["model"]["vocab"] |= {"ab": 256, "ĊĊ": 257}
    rules["model"]["merges"] = [["a", "b"], ["Ċ", "Ċ"]]
    made = PreTrainedTokenizerFast(tokenizer_object=Core.from_str(json.dumps(rules)), **wrapped.special_tokens_map)
    made.chat_template = template or wrapped.chat_template
    return HFTokenizer(made)


TOKENIZER = joining()


def lay_out(schema: Schema, tokenizer: HFTokenizer) -> SchemaLayout:
    return Reserved().lay_out(schema, tokenizer, encoding="isolated", context=CONTEXT, max_positions=None)


def notes(children: str, tokenizer: HFTokenizer = TOKENIZER) -> tuple[Note, ...]:
    return border_notes(lay_out(parse_schema(f'<schema name="s">{children}</schema>'), tokenizer), tokenizer)


def places(found: tuple[Note, ...]) -> list[tuple[str, int]]:
    """The border and the column of each note; the schema's start tag takes 17 columns."""
    return [(note.message.split(":")[0], note.span.column - 17) for note in found if note.span]


@pytest.mark.parametrize(
    ("children", "expected"),
    [
        ('xa<module name="m">by</module>', [('"xa" | "by"', 20)]),
        ('<module name="m">xa</module>by', [('"xa" | "by"', 29)]),
        ('<module name="m">xa</module><module name="n">by</module>', [('"xa" | "by"', 46)]),
        # What is optional may be absent.
        ('xa<module name="m">y</module>bz', [('"xa" | "bz"', 30)]),
        ('xa<module name="m">y</module><module name="n">bz</module>', [('"xa" | "bz"', 47)]),
        ('xa<union><module name="m">y</module><module name="n">z</module></union>by', [('"xa" | "by"', 72)]),
        ('xa<module name="m"><module name="n">y</module></module>bz', [('"xa" | "bz"', 56)]),
        # Each member may be there, and no two are.
        (
            'xa<union><module name="m">b1</module><module name="n">b2</module></union>',
            [('"xa" | "b1"', 27), ('"xa" | "b2"', 55)],
        ),
        ('<union><module name="m">xa</module><module name="n">by</module></union>', []),
        ('<union><module name="m">y</module><module name="n">a</module></union>b', [('"a" | "b"', 70)]),
        # Text that is always there keeps both sides apart.
        ('xa<module name="m">y</module>-<module name="n">bz</module>', []),
        ('xa<module name="m"><module name="n">y</module>-</module>cz', []),
        # Inside a module.
        ('<module name="m">xa<module name="n">by</module>z</module>', [('"xa" | "by"', 37)]),
        ('<module name="m">x<module name="n">ya</module>bz</module>', [('"ya" | "bz"', 47)]),
        # An end that many may follow, and a text that many may precede, which is warned of once.
        ('a<module name="m">b1</module><module name="n">b2</module>', [('"a" | "b1"', 19), ('"a" | "b2"', 47)]),
        ('<module name="m">1a</module><module name="n">2a</module>b', [('"1a" | "b"', 57)]),
        # A default is what an argument is known to be; a scaffold shows what it may be.
        ('<module name="m">a<parameter name="p" length="3" default="b"/></module>', [('"a" | "b"', 19)]),
        ('<module name="m">a<parameter name="p" length="3" scaffold="b"/></module>', [('"a" | "b"', 19)]),
        ('<module name="m"><parameter name="p" length="3" default="a"/>b</module>', [('"a" | "b"', 62)]),
        ('<module name="m">a <parameter name="p" length="3" default="b"/></module>', []),
        # Without a default it may be nothing.
        ('<module name="m">a<parameter name="p" length="3"/>b</module>', [('"a" | "b"', 51)]),
        ('<module name="m">a<parameter name="p" length="3" default="x"/>b</module>', []),
        # Turns end in special tokens.
        ("<user>a</user><assistant>b</assistant><user>a</user>", []),
        ('<user>xa<module name="m">by</module></user>', [('"user\\nxa" | "by"', 26)]),
        ('<module name="m"/>', []),
        ('<module name="m"/><module name="n"/>a<module name="o"/>b', [('"a" | "b"', 56)]),
        ("", []),
    ],
)
def test_borders_of_a_schema(children: str, expected: list[tuple[str, int]]) -> None:
    assert places(notes(children)) == expected


def test_what_a_note_says() -> None:
    [note] = notes('Here are many facts\n<module name="m" xml:space="preserve">\nand more of them.</module>')
    assert note.message == (
        '"... many facts\\n" | "\\nand more of...": this tokenizer would spell both together otherwise than it spells '
        "them apart. Move the border to where a word or a line begins"
    )
    assert (note.span.line, note.span.column) == (3, 1)


def test_a_closing_marker_that_is_text() -> None:
    tokenizer = joining(MARKED)
    assert places(notes("<user>xa</user>", tokenizer)) == [('"(user)xa" | "b"', 1)]
    assert places(notes('<user>x<module name="m">ya</module></user>', tokenizer)) == [('"ya" | "b"', 1)]
    # A turn that is closed in the schema is one run with its marker.
    assert notes("<user>xa</user><assistant>b</assistant>", tokenizer) == ()


def test_long_texts_and_many_modules() -> None:
    long = "x" * 100_000
    assert len(notes(f'{long}a<module name="m">b{long}</module>')) == 1
    assert notes(f'{long}a<module name="m">{"y" * WINDOW}b</module>') == ()
    many = "".join(f'<module name="m{n}">{n} a</module>' for n in range(60))
    assert len(notes(many + "b")) == 1
    assert notes(many + "c") == ()


def test_every_order_of_a_union_of_unions() -> None:
    found = notes(
        'a<union><module name="m">b</module><union><module name="n">b-</module><module name="o">-b</module></union>'
        "</union>"
    )
    assert [note.message.split(":")[0] for note in found] == ['"a" | "b"', '"a" | "b-"']


@pytest.mark.parametrize("dummy", ["first", "always", "prepend"])
@pytest.mark.parametrize("adds_bos", [False, True])
def test_a_dummy_space_that_only_the_first_text_has(dummy: str, adds_bos: bool) -> None:
    tokenizer = HFTokenizer(sentencepiece(MARKED, dummy=dummy, adds_bos=adds_bos, bos="<s>" if adds_bos else None))
    modules = '<module name="m">Hello there!</module><module name="n">\nHow are you?</module>'
    [note] = notes(modules, tokenizer)
    assert note.message.startswith('"How are you?" may open the prompt')
    assert notes(f"I am fine.{modules}", tokenizer) == ()
    assert notes('<module name="m">Hello there!</module>', tokenizer) == ()
    assert notes(f"<user>I am fine.{modules}</user>", tokenizer) == ()


def test_a_dummy_space_behind_the_turns_of_a_union() -> None:
    """All members end in a special token, so what follows is taken to stand behind one."""
    tokenizer = HFTokenizer(published("llama2-legacy"))
    turns = "<user>How are you?</user><assistant>I am fine.</assistant>"
    union = f'<union><module name="m">{turns}</module><module name="n">{turns}</module></union>'
    assert notes(f"{union}Hello there!", tokenizer) == ()
    [note] = notes(f'{union}<module name="o">you too</module>Hello there!', tokenizer)
    assert note.message.startswith('"Hello there!" may open the prompt or stand behind a special token')


def prompt_notes(schema: str, prompt: str | Prompt, tokenizer: HFTokenizer = TOKENIZER) -> tuple[Note, ...]:
    layout = lay_out(parse_schema(f'<schema name="s">{schema}</schema>'), tokenizer)
    bound = bind(parse_prompt(prompt) if isinstance(prompt, str) else prompt, layout.schema)
    texts = Reserved().texts(layout, bound, tokenizer)
    joined = prompt_border_notes(texts, tokenizer)
    # The same by another way: the texts of the whole prompt, joined, give other ids than the plan has.
    made = Reserved().plan(layout, bound, tokenizer, max_positions=None)
    pieces = [piece for text in texts for piece in text.pieces]
    runs: list[int | str] = []
    for piece in pieces:
        if runs and isinstance(piece, str) and isinstance(runs[-1], str):
            runs[-1] += piece
        else:
            runs.append(piece)
    ids = [
        id
        for run in runs
        for id in ([run] if isinstance(run, int) else tokenizer.encode(run, behind=None, start=False))
    ]
    assert (ids != list(made.token_ids)) == bool(joined)
    return joined


@pytest.mark.parametrize(
    ("schema", "prompt", "expected"),
    [
        ("xa", '<prompt schema="s">by</prompt>', [('"xa" | "by"', 20)]),
        ("xa", '<prompt schema="s">y</prompt>', []),
        ('x<module name="m">ya</module>z', '<prompt schema="s"><m/>b</prompt>', []),
        ('<module name="m">ya</module>', '<prompt schema="s"><m/>b</prompt>', [('"ya" | "b"', 24)]),
        ('<module name="m">a</module>x', '<prompt schema="s"><m/></prompt>', []),
        ('<module name="m">a</module>x<module name="n">b</module>', '<prompt schema="s"><m/><n/></prompt>', []),
        (
            '<module name="m">a</module><module name="x">x</module><module name="n">b</module>',
            '<prompt schema="s"><m/><n/></prompt>',
            [('"a" | "b"', 17 + 72)],
        ),
        (
            '<module name="m">a</module><module name="x">xx</module><module name="n">c</module>',
            '<prompt schema="s"><m/>b<n/></prompt>',
            [('"a" | "b"', 24)],
        ),
        (
            '<module name="m">a<parameter name="p" length="4"/>c</module>',
            '<prompt schema="s"><m p="b"/></prompt>',
            [('"a" | "b"', 23)],
        ),
        ('<module name="m">a<parameter name="p" length="4"/>c</module>', '<prompt schema="s"><m p="-b"/></prompt>', []),
        (
            '<module name="m">-<parameter name="p" length="4"/>b</module>',
            '<prompt schema="s"><m p="xa"/></prompt>',
            [('"xa" | "b"', 17 + 51)],
        ),
        ("<user>xa</user>", '<prompt schema="s">b</prompt>', [('"user\\nxa" | "b"', 20)]),
        ("<user>xa</user>", '<prompt schema="s"><user>b</user></prompt>', []),
    ],
)
def test_borders_of_a_prompt(schema: str, prompt: str, expected: list[tuple[str, int]]) -> None:
    found = prompt_notes(schema, prompt)
    assert [(note.message.split(":")[0], note.span.column) for note in found if note.span] == expected


def test_prompts_built_in_python() -> None:
    [note] = prompt_notes("xa", Prompt("s", text="b"))
    assert note.message.startswith('"xa" | "b":') and note.span is None
    assert prompt_border_notes((), TOKENIZER) == ()
