"""Each warning fires on one example and is silent on its twin."""

from __future__ import annotations

import pytest

from promptcache.pml import bind, parse_prompt, parse_schema
from tests.pml.faults import mark

P = '<param name="p" len="2"/>'

M, N = '<module name="m">do</module>', '<module name="n">do</module>'
COMMA = '<module name="c">,</module>'
EXACT = '<module name="m" xml:space="preserve">'

PAIRS = [
    ("lone space, before a module", f"^a Miami {M}", f"a Miami\n{M}"),
    ("lone space, at a module's end", f"{EXACT}^M </module>.", f"{EXACT}M</module>."),
    ("lone space, before a parameter", f"{EXACT}^M  {P}</module>", f"{EXACT}M {P}</module>"),
    ("mid-word, before a module", f"^un{M}", f"un-{M}"),
    ("mid-word, before a later member", f"^un<union>{COMMA}{M}</union>", f"un-<union>{COMMA}{M}</union>"),
    ("mid-word, across a module left out", f"^un{COMMA}do", f"un{COMMA} do"),
    ("mid-word, behind a module", '<module name="m">^un</module>do', '<module name="m">un</module> do'),
    ("mid-word, between modules", f'<module name="u">^un</module>{M}', f'<module name="u">un</module> {M}'),
    ("mid-word, before a parameter", f'<module name="m">^of{P}</module>', f'<module name="m">of:{P}</module>'),
    ("mid-word, in a turn", f"<user>^un{M}</user>", f"<user>un\n{M}</user>"),
    ("one member", f"^<union>{M}</union>", f"<union>{M}{N}</union>".replace("do", ".")),
    ("text beside turns", "^text<user>u</user>", "<user>text</user>"),
    ("module beside turns", f"<user>u</user>^{M}", f"<user>u\n{M}</user>"),
    ("union beside turns", f"<user>u</user>^<union>{M}{COMMA}</union>", f"<user>u\n<union>{M}{COMMA}</union></user>"),
    (
        "text in a module beside turns",
        '^<module name="m">M<user>u</user></module>',
        '<module name="m"><user>u</user></module>',
    ),
]


@pytest.mark.parametrize(("noisy", "silent"), [pair[1:] for pair in PAIRS], ids=[pair[0] for pair in PAIRS])
def test_warning(noisy: str, silent: str) -> None:
    text, place = mark(f'<schema name="s">{noisy}</schema>')
    notes = parse_schema(text).notes
    assert [f"{note.span.line}:{note.span.column}" for note in notes if note.span] == [place]
    assert parse_schema(f'<schema name="s">{silent}</schema>').notes == ()


def test_what_a_warning_says() -> None:
    schema = parse_schema(f'<schema name="s"><module name="m">\n  Plan a trip of{P}</module></schema>')
    [note] = schema.notes
    assert str(note) == (
        '<schema>:2:3: "...an a trip of" is cut in mid-word: parameter "p" follows. Put a space or a line break there'
    )


@pytest.mark.parametrize(
    ("schema", "prompt", "count"),
    [
        (None, "<prompt>^text<user>u</user></prompt>", 1),
        (None, "<prompt>text</prompt>", 0),
        (None, "<prompt><user>u</user></prompt>", 0),
        ("<user>u</user><assistant>a</assistant>", "<prompt schema='s'>text</prompt>", 1),
        ("<user>u</user>", "<prompt schema='s'>text</prompt>", 0),
        ("text", "<prompt schema='s'>text</prompt>", 0),
        ("text", "<prompt schema='s'>text<user>u</user></prompt>", 1),
    ],
)
def test_text_of_a_prompt_beside_turns(schema: str | None, prompt: str, count: int) -> None:
    parsed = parse_schema(f"<schema name='s'>{schema}</schema>") if schema else None
    notes = bind(parse_prompt(prompt.replace("^", "")), parsed).notes
    assert len(notes) == count
    assert all("outside of the turns" in note.message for note in notes)
