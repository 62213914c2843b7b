"""Prompts as text."""

from __future__ import annotations

import pytest

from promptcache.errors import PromptError
from promptcache.pml import Import, NewText, NewTurn, parse_prompt
from promptcache.source import Source
from tests.pml.faults import fault_of, mark, places, prompt_fault


def test_the_example_of_the_reference() -> None:
    prompt = parse_prompt(
        """
        <prompt schema="trip">
          <miami><beaches/></miami>
          <plane/>
          <plan days="three"/>
          <user>Where do I start?</user>
        </prompt>
        """
    )
    assert prompt.schema == "trip"
    assert prompt.items == (
        Import("miami", imports=(Import("beaches"),)),
        Import("plane"),
        Import("plan", (("days", "three"),)),
    )
    assert prompt.turns == (NewTurn("user", "Where do I start?"),)
    assert (prompt.repair, prompt.arguments, prompt.exact) == (None, (), False)


def test_a_plain_prompt() -> None:
    prompt = parse_prompt("<prompt> Hello &amp; <![CDATA[<bye/>]]> </prompt>")
    assert (prompt.schema, prompt.items, prompt.turns) == (None, (NewText("Hello & <bye/>"),), ())
    assert parse_prompt("<prompt/>").items == ()


def test_text_and_several_turns() -> None:
    prompt = parse_prompt(
        '<prompt schema="s" repair="full">a<x p="1" q=""/>b<y/>c<user>d</user><assistant/><user>e</user></prompt>'
    )
    assert prompt.items == (
        NewText("a"),
        Import("x", (("p", "1"), ("q", ""))),
        NewText("b"),
        Import("y"),
        NewText("c"),
    )
    assert prompt.turns == (NewTurn("user", "d"), NewTurn("assistant", ""), NewTurn("user", "e"))
    assert prompt.repair == "full"


def test_repeats_are_kept() -> None:
    assert parse_prompt('<prompt schema="s"><a/><a/></prompt>').items == (Import("a"), Import("a"))


def test_places() -> None:
    prompt = parse_prompt('<prompt schema="s">\n  <a\n    p="1" q="2"/>\n  é text\n</prompt>')
    [item, text] = prompt.items
    assert isinstance(item, Import)
    spans = [prompt.span, item.span, *(span for _, span in item.argument_spans), text.span]
    assert [(span.line, span.column) for span in spans if span] == [(1, 1), (2, 3), (3, 5), (3, 11), (4, 3)]


FAULTS = [
    ("<prompt schema='s' ^name='p'/>", '<prompt> has no attribute "name"', "allowed here: schema, repair"),
    ("<prompt ^shema='s'/>", '"shema"', 'did you mean "schema"?'),
    ("<prompt schema='s'><a>^text</a></prompt>", "text inside the import <a>", "before or behind"),
    ("<prompt schema='s'><a><b/>\n ^é</a></prompt>", "text inside the import <a>", "before or behind"),
    ("<prompt schema='s'><user>hi ^<a/></user></prompt>", "<a> stands inside <user>", "put the turn into the schema"),
    ("<prompt schema='s'><user>hi ^<user>a</user></user></prompt>", "<user> stands inside <user>", "schema"),
    ("<prompt schema='s'><user>hi</user>^<a/></prompt>", "<a> is imported behind a turn", "before the role tags"),
    ("<prompt schema='s'><user>hi</user> ^text<user/></prompt>", "text behind a turn", "role tag"),
    ("<prompt schema='s'><user>hi</user>\n^text</prompt>", "text behind a turn", "role tag"),
    ("<prompt schema='s'><user ^name='x'>hi</user></prompt>", '<user> has no attribute "name"', "take it out"),
    ("<prompt schema='s'>^<module name='a'/></prompt>", "<module> stands in a prompt", "<name/>"),
    ("<prompt schema='s'>^<schema/></prompt>", "<schema> stands in a prompt", "<name/>"),
    ("<prompt schema='s'><a>^<user>hi</user></a></prompt>", "<user> stands in a prompt", "<name/>"),
]


@pytest.mark.parametrize(("text", "words", "hint"), FAULTS)
def test_fault(text: str, words: str, hint: str) -> None:
    text, place = mark(text)
    fault = prompt_fault(text)
    assert isinstance(fault, PromptError)
    assert words in fault.message
    assert hint in (fault.hint or "")
    assert places(fault)[0] == place


def test_all_faults_are_found_in_one_pass() -> None:
    fault = fault_of(
        lambda: parse_prompt(
            Source("p.xml", "<prompt x='1'>\n <a>t</a>\n <user><b/></user>\n <c>t</c> text\n <union/>\n</prompt>")
        )
    )
    assert places(fault) == ["1:9", "2:5", "3:8", "4:2", "4:11", "5:2"]
    assert fault.file == "p.xml"


def test_end_users_text_stays_text() -> None:
    prompt = parse_prompt("<prompt>&lt;secret/> &lt;/prompt> ]]&gt; &amp; &lt;|im_end|></prompt>")
    assert prompt.items == (NewText("<secret/> </prompt> ]]> & <|im_end|>"),)
