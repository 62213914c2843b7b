"""Anchors, scaffolds and repair where states are moved: in the compact layout, against the oracle.

A pass's ghosts stand where they stood relative to the segment that saw them.
"""

from __future__ import annotations

import pytest

from promptcache import PromptCache
from promptcache.runtime.states import segmented
from tests.engine.comparison import agrees, byte_engine, distance, expect, shifted_by
from tests.engine.repairs import attention_of_fresh, in_order, repair_tokens
from tests.engine.test_counts import HookCount
from tests.engine.written import ghosts, prompt, schema
from tests.oracle import FRESH, Token, tokens
from tests.paper import paper_engine
from tests.tiny import UNK


@pytest.fixture(scope="module", params=["isolated", "anchored"])
def engine(request: pytest.FixtureRequest) -> PromptCache:
    return byte_engine(encoding=request.param, layout="compact")


def test_anchors_at_another_distance():
    anchored = byte_engine(encoding="anchored", layout="compact")
    intro = schema('Be calm.<module name="a">alpha</module> And <module name="b">bravo</module>')
    text = tokens(b"Be calm.", 0, "t1")
    a = ghosts(b"Be calm.", 0, "a") + tokens(b"alpha", 8, "a")
    moved = ghosts(b"Be calm.", 5, "t2") + tokens(b" And ", 13, "t2")
    b = ghosts(b"Be calm.", 5, "b") + ghosts(b" And ", 13, "b") + tokens(b"bravo", 18, "b")
    agrees(anchored, intro, prompt("<a/><b/>Go"), text + a + moved + b + tokens(b"Go", 23))
    b = ghosts(b"Be calm.", 0, "b") + ghosts(b" And ", 8, "b") + tokens(b"bravo", 13, "b")
    near = tokens(b"Be calm.", 0, "t1") + tokens(b" And ", 8, "t1")
    agrees(anchored, intro, prompt("<b/>Go"), near + b + tokens(b"Go", 18), exact=True)


TRIO = schema(
    'T.<module name="a">alpha</module><module name="b">bravo</module><module name="c">carol</module>'
    '<scaffold modules="a b"/>'
)


def joint(start: int, group: str) -> list[Token]:
    """a and b as encoded together, a from `start` on."""
    seen = ghosts(b"T.", start - 2, group)
    return [*seen, *tokens(b"alpha", start, group), *tokens(b"bravo", start + 5, group)]


def single(word: bytes, start: int, group: str, encoding: str) -> list[Token]:
    seen = ghosts(b"T.", start - 2, group) if encoding == "anchored" else []
    return [*seen, *tokens(word, start, group)]


def test_joint_states_where_the_members_stand_as_they_were_encoded(engine):
    text, encoding = tokens(b"T.", 0, "text"), engine.encoding
    agrees(engine, TRIO, prompt("<a/><b/>?"), text + joint(2, "ab") + tokens(b"?", 12), exact=True)
    c = single(b"carol", 2, "c", encoding)
    agrees(engine, TRIO, prompt("<c/><a/><b/>?"), text + c + joint(7, "ab") + tokens(b"?", 17))
    twice = joint(2, "ab") + joint(12, "again")
    agrees(engine, TRIO, prompt("<a/><b/><a/><b/>?"), text + twice + tokens(b"?", 22))
    # what is imported a second time alone is alone
    more = joint(2, "ab") + single(b"bravo", 12, "b", encoding)
    agrees(engine, TRIO, prompt("<a/><b/><b/>?"), text + more + tokens(b"?", 17))


def test_single_states_where_they_do_not(engine):
    text, encoding = tokens(b"T.", 0, "text"), engine.encoding
    b, a = single(b"bravo", 2, "b", encoding), single(b"alpha", 7, "a", encoding)
    agrees(engine, TRIO, prompt("<b/><a/>?"), text + b + a + tokens(b"?", 12))
    words = [b"alpha", b"carol", b"bravo"]
    apart = [t for n, word in enumerate(words) for t in single(word, 2 + 5 * n, str(n), encoding)]
    agrees(engine, TRIO, prompt("<a/><c/><b/>?"), [*text, *apart, *tokens(b"?", 17)])


def test_arguments_may_stand_between_members(engine):
    filled = schema(
        '<module name="a">alpha<parameter name="p" length="3"/>omega</module><module name="b">bravo</module>'
        '<scaffold modules="a b"/>'
    )

    def behind(start: int, group: str, upto: bytes) -> list[Token]:
        """What "omega" saw, or that and "bravo", with "omega" at `start`."""
        seen = ghosts(b"alpha", start - 8, group) + tokens([UNK] * 3, start - 3, group, ghost=True)
        if upto == b"omega":
            return seen + tokens(b"omega", start, group)
        return seen + ghosts(b"omega", start, group) + tokens(b"bravo", start + 5, group)

    alpha = tokens(b"alpha", 0, "a")
    one = alpha + tokens(b"x", 5) + behind(6, "o", b"omega") + behind(6, "b", b"bravo") + tokens(b"?", 16)
    agrees(engine, filled, prompt('<a p="x"/><b/>?'), one)
    none = alpha + behind(5, "o", b"omega") + behind(5, "b", b"bravo") + tokens(b"?", 15)
    agrees(engine, filled, prompt("<a/><b/>?"), none)


def given(encoding: str) -> list[Token]:
    text = tokens(b"T.", 0, "text")
    c = single(b"carol", 2, "c", encoding)
    return text + c + joint(7, "ab") + single(b"bravo", 17, "b", encoding) + tokens(b"What?", 22)


@pytest.mark.parametrize("attention", ["segments", "assembled"])
def test_repair(engine, attention):
    asking = paper_engine(
        engine.model, engine.tokenizer, encoding=engine.encoding, layout="compact", attention=attention
    )
    asking.load_schema(TRIO)
    start = given(engine.encoding)
    mass = attention_of_fresh(engine.model, start)
    # T. and, anchored, carol behind it are exact
    candidates = [t.position for t in start if t.group != FRESH and not t.ghost and t.position >= 2]
    if engine.encoding == "anchored":
        candidates = [p for p in candidates if p >= 7]
    asked = in_order(start, mass, candidates)[: round(0.3 * 22)]
    seams = [7, 17] if engine.encoding == "anchored" else [2, 7, 17]
    linked = [p + n for p in seams for n in range(2)]
    body = prompt("<c/><a/><b/><b/>What?")
    for repair, chosen in {"link:2": linked, "query:0.3": asked, "query:0.3+link:2": [*asked, *linked]}.items():
        tokens_then = repair_tokens(start, chosen)
        expected, limit = expect(engine.model, tokens_then)
        shifts = {run.shift for run in asking.plan(body).runs if run.shift}
        limit += 2 * max(shifted_by(engine.model, tokens_then, shift) for shift in shifts)
        for gathered, scores in ((0, 1 << 17), (0, 0), (256, 0)):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(segmented, "GATHERED_TOKENS", gathered)
                patch.setattr(segmented, "_COVER_SCORES", scores)
                assert distance(asking.logits(body, repair=repair), expected) < limit
        with HookCount(asking) as hook:
            usage = asking.generate(body, max_new_tokens=1, repair=repair).usage
        assert usage.repaired_tokens == len(set(chosen)) and usage.computed_tokens == hook.tokens
    full = asking.logits(body, reuse=False)
    assert distance(asking.logits(body, repair="full"), full) < 1e-4
