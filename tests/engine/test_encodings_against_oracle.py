"""Encodings `anchored` and `<scaffold>` equal the oracle: ids, positions and passes written by hand.

A group is an encoding pass; what it saw of other modules is in it again as ghosts.
"""

from __future__ import annotations

import pytest

from promptcache import PromptCache
from tests.engine.comparison import agrees, byte_engine
from tests.engine.written import ghosts, prompt, schema
from tests.oracle import Token, tokens
from tests.tiny import BOS, UNK


@pytest.fixture(scope="module")
def anchored() -> PromptCache:
    return byte_engine(encoding="anchored")


@pytest.fixture(scope="module", params=["isolated", "anchored"])
def engine(request: pytest.FixtureRequest) -> PromptCache:
    return byte_engine(encoding=request.param)


def test_a_module_sees_the_text_before_it_and_no_sibling(anchored):
    intro = schema('Be calm.<module name="a">alpha</module> And <module name="b">bravo</module> Bye.')
    text = tokens(b"Be calm.", 0, "text") + tokens(b" And ", 13, "text") + tokens(b" Bye.", 23, "text")
    a = ghosts(b"Be calm.", 0, "a") + tokens(b"alpha", 8, "a")
    b = ghosts(b"Be calm.", 0, "b") + ghosts(b" And ", 13, "b") + tokens(b"bravo", 18, "b")
    agrees(anchored, intro, prompt("<a/><b/>Go"), text + a + b + tokens(b"Go", 28))
    agrees(anchored, intro, prompt("<b/>Go"), text + b + tokens(b"Go", 28))


def test_one_module_behind_the_text_is_exact(anchored):
    intro = schema('Be calm.<module name="a">alpha</module><module name="b">bravo</module>')
    text, a = tokens(b"Be calm.", 0, "text"), ghosts(b"Be calm.", 0, "a") + tokens(b"alpha", 8, "a")
    agrees(anchored, intro, prompt("<a/>Go"), text + a + tokens(b"Go", 13), exact=True)
    b = ghosts(b"Be calm.", 0, "b") + tokens(b"bravo", 13, "b")
    agrees(anchored, intro, prompt("<b/>Go"), text + b + tokens(b"Go", 18), exact=True)
    agrees(anchored, intro, prompt("<a/><b/>Go"), text + a + b + tokens(b"Go", 18))


def test_a_nested_module_sees_its_ancestors_and_their_placeholders(anchored):
    nested = schema('T<module name="a">ab<parameter name="p" length="2"/>c<module name="n">no</module>d</module>')
    around = tokens(b"ab", 1, "a") + tokens([UNK, UNK], 3, "a", ghost=True) + tokens(b"c", 5, "a")
    a = ghosts(b"T", 0, "a") + around + tokens(b"d", 8, "a")
    seen = ghosts(b"Tab", 0, "n") + tokens([UNK, UNK], 3, "n", ghost=True) + ghosts(b"c", 5, "n")
    n = seen + tokens(b"no", 6, "n")
    text = tokens(b"T", 0, "text")
    agrees(anchored, nested, prompt('<a p="xy"><n/></a>?'), text + a + n + tokens(b"xy", 3) + tokens(b"?", 9))
    agrees(anchored, nested, prompt("<a><n/></a>?"), text + a + n + tokens(b"?", 9))


def test_a_member_stands_in_for_its_union_behind_it(anchored):
    union = schema(
        'T<union scaffold="y"><module name="x">xx</module><module name="y">y<parameter name="p" length="1"/>'
        '<union scaffold="u"><module name="u">uu</module></union><module name="z">zz</module></module></union>'
        '-<module name="c">cc</module>'
    )
    stand_in = b"y", [UNK], b"uu"

    def seen(group: str) -> list[Token]:
        return [t for n, ids in enumerate(stand_in) for t in tokens(ids, 1 + n, group, ghost=True)]

    text = tokens(b"T", 0, "text") + seen("text") + tokens(b"-", 7, "text")
    c = ghosts(b"T", 0, "c") + seen("c") + ghosts(b"-", 7, "c") + tokens(b"cc", 8, "c")
    x = ghosts(b"T", 0, "x") + tokens(b"xx", 1, "x")
    agrees(anchored, union, prompt("<x/><c/>?"), text + x + c + tokens(b"?", 10))
    agrees(anchored, union, prompt("<c/>?"), text + c + tokens(b"?", 10))


def test_the_stand_in_itself_is_exact(anchored):
    union = schema(
        '<union scaffold="y"><module name="x">x</module><module name="y">yy</module></union>'
        '<module name="c">cc</module>'
    )
    y, c = tokens(b"yy", 0, "y"), ghosts(b"yy", 0, "c") + tokens(b"cc", 2, "c")
    agrees(anchored, union, prompt("<y/><c/>?"), y + c + tokens(b"?", 4), exact=True)
    agrees(anchored, union, prompt("<x/><c/>?"), tokens(b"x", 0, "x") + c + tokens(b"?", 4))


def test_text_of_an_uncached_parent_is_seen(anchored):
    live = schema('<module name="live" cache="false">12<module name="n">nested</module></module>')
    n = ghosts(b"12", 0, "n") + tokens(b"nested", 2, "n")
    agrees(anchored, live, prompt("<live><n/></live>?"), tokens(b"12", 0) + n + tokens(b"?", 8), exact=True)


def test_beginning_of_sequence_is_in_view(engine):
    bos = byte_engine(bos=True, encoding="anchored")
    text = tokens([BOS], 0, "text")
    a = tokens([BOS], 0, "a", ghost=True) + tokens(b"ab", 1, "a")
    b = tokens([BOS], 0, "b", ghost=True) + tokens(b"cd", 3, "b")
    modules = schema('<module name="a">ab</module><module name="b">cd</module>')
    agrees(bos, modules, prompt("<a/><b/>?"), text + a + b + tokens(b"?", 5))


PAIR = schema(
    '<module name="a">aa</module><module name="b">bbb</module><module name="c">cc</module><scaffold modules="a c"/>'
)


def test_a_scaffold_replaces_single_states_when_all_members_are_there(engine):
    a, c = tokens(b"aa", 0, "a"), tokens(b"cc", 5, "c")
    joint = tokens(b"aa", 0, "ac") + tokens(b"cc", 5, "ac")
    b, ask = tokens(b"bbb", 2, "b"), tokens(b"?", 7)
    agrees(engine, PAIR, prompt("<a/><c/>?"), joint + ask, exact=True)
    agrees(engine, PAIR, prompt("<c/><a/>?"), joint + ask, exact=True)
    agrees(engine, PAIR, prompt("<a/><b/><c/>?"), joint + b + ask)
    # with one member missing it is not used
    agrees(engine, PAIR, prompt("<b/><c/>?"), b + c + ask)
    agrees(engine, PAIR, prompt("<a/><b/>?"), a + b + tokens(b"?", 5))


def test_the_largest_matching_scaffold_wins(engine):
    both = schema(
        '<module name="a">aa</module><module name="b">bb</module><module name="c">cc</module>'
        '<scaffold modules="b c"/><scaffold modules="a b c"/><scaffold modules="a b"/>'
    )
    a, b, c = (("aa", 0), ("bb", 2), ("cc", 4))

    def run(group: str, *parts: tuple[str, int]) -> list[Token]:
        return [t for text, start in parts for t in tokens(text.encode(), start, group)]

    ask = tokens(b"?", 6)
    agrees(engine, both, prompt("<a/><b/><c/>?"), run("abc", a, b, c) + ask, exact=True)
    agrees(engine, both, prompt("<b/><c/>?"), run("bc", b, c) + ask, exact=True)
    agrees(engine, both, prompt("<a/><b/>?"), run("ab", a, b) + tokens(b"?", 4), exact=True)
    agrees(engine, both, prompt("<a/><c/>?"), run("a", a) + run("c", c) + ask)


def test_always_present_text_up_to_the_last_member_is_joint():
    isolated = byte_engine()
    around = schema('One.<module name="a">aa</module> Two.<module name="b">bb</module> Three.<scaffold modules="a b"/>')
    joint = [
        *ghosts(b"One.", 0, "ab"),
        *tokens(b"aa", 4, "ab"),
        *tokens(b" Two.", 6, "ab"),
        *tokens(b"bb", 11, "ab"),
    ]
    text = tokens(b"One.", 0, "text") + ghosts(b" Two.", 6, "text") + tokens(b" Three.", 13, "text")
    agrees(isolated, around, prompt("<a/><b/>?"), text + joint + tokens(b"?", 20))
    single = tokens(b"One.", 0, "text") + tokens(b" Two.", 6, "text") + tokens(b" Three.", 13, "text")
    agrees(isolated, around, prompt("<a/>?"), single + tokens(b"aa", 4, "a") + tokens(b"?", 20))
    close = schema('One.<module name="a">aa</module> Two.<module name="b">bb</module><scaffold modules="a b"/>')
    agrees(isolated, close, prompt("<a/><b/>?"), tokens(b"One.", 0, "text") + joint + tokens(b"?", 13), exact=True)


def test_members_in_unions_nested_and_with_parameters(engine):
    deep = schema(
        '<union><module name="x">x</module><module name="y">y<module name="n">nn</module>Y</module></union>'
        '<module name="p">p<parameter name="q" length="2"/>PARK</module><scaffold modules="y/n p"/>'
    )
    # y is not listed, but is there whenever n is
    joint = [
        *tokens(b"y", 0, "y"),
        *ghosts(b"y", 0, "j"),
        *tokens(b"nn", 1, "j"),
        *tokens(b"Y", 3, "j"),
        *tokens(b"p", 4, "j"),
        *tokens([UNK, UNK], 5, "j", ghost=True),
        *tokens(b"PARK", 7, "j"),
    ]
    agrees(engine, deep, prompt("<y><n/></y><p/>?"), joint + tokens(b"?", 11))
    agrees(engine, deep, prompt('<y><n/></y><p q="1"/>?'), joint + tokens(b"1", 5) + tokens(b"?", 11))


def test_nothing_fresh(engine):
    a, c = tokens(b"aa", 0, "ac"), tokens(b"c", 5, "ac")
    agrees(engine, PAIR, prompt("<a/><c/>"), a + c + tokens(b"c", 6), exact=True)


def test_overlapping_scaffolds(engine):
    two = schema(
        '<module name="a">aa</module><module name="b">bb</module><module name="c">cc</module>'
        '<scaffold modules="a b"/><scaffold modules="b c"/>'
    )
    # of equals the first wins for b; c keeps the states that saw b as it was in its own scaffold
    ab = tokens(b"aa", 0, "ab") + tokens(b"bb", 2, "ab")
    bc = ghosts(b"bb", 2, "bc") + tokens(b"cc", 4, "bc")
    agrees(engine, two, prompt("<a/><b/><c/>?"), ab + bc + tokens(b"?", 6))
