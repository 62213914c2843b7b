"""Repair equals the oracle: which tokens are computed again, and what they and all others see then."""

from __future__ import annotations

import pytest

from promptcache import Prompt, PromptCache
from promptcache.errors import PromptError, RequestError
from promptcache.kv import segments
from promptcache.runtime.states import segmented
from tests.engine.comparison import TOLERANCE, byte_engine, distance, expect
from tests.engine.repairs import attention_of_fresh, in_order, repair_tokens
from tests.engine.test_counts import HookCount
from tests.oracle import FRESH, Token, full_prefill_logits, tokens
from tests.paper import paper_engine
from tests.tiny import UNK

SCHEMA = """<schema name="s">Intro. <module name="a">alpha one two.</module><module name="skipped">zzz</module>\
<module name="b">bravo <parameter name="p" length="3"/>, more of it<module name="n">-nested</module>!</module>\
<union><module name="c">charlie</module><module name="d">delta, the last</module></union> Outro.</schema>"""
PROMPT = '<prompt schema="s"><a/><b p="x"><n/></b><c/>What?</prompt>'


def given() -> list[Token]:
    """The prompt's tokens without repair."""
    text = tokens(b"Intro. ", 0, "text") + tokens(b" Outro.", 67, "text")
    a = tokens(b"alpha one two.", 7, "a")
    b = [*tokens(b"bravo", 24, "b"), *tokens([UNK] * 3, 29, "b", ghost=True), *tokens(b", more of it", 32, "b")]
    b += tokens(b"!", 51, "b")
    n, c = tokens(b"-nested", 44, "n"), tokens(b"charlie", 52, "c")
    return text + a + b + n + c + tokens(b" x", 29) + tokens(b"What?", 74)


@pytest.fixture(scope="module", params=["segments", "assembled"])
def engine(request: pytest.FixtureRequest) -> PromptCache:
    made = byte_engine()
    made = paper_engine(made.model, made.tokenizer, attention=request.param)
    made.load_schema(SCHEMA)
    return made


def check(engine: PromptCache, repair: str, positions: list[int]) -> None:
    chosen = repair_tokens(given(), positions)
    real = sorted((t for t in chosen if not t.ghost), key=lambda t: t.position)
    expected, limit = expect(engine.model, chosen)
    plain, _ = expect(engine.model, given())
    assert distance(expected, plain) > 100 * TOLERANCE, "this case cannot tell repair from none"
    # As few views under masks; as many views; gathered, with rows in several steps; gathered, in one step.
    for gathered, rows, scores in ((0, 128, 1 << 17), (0, 128, 0), (256, 5, 0), (256, 128, 0)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(segmented, "GATHERED_TOKENS", gathered)
            patch.setattr(segmented, "_COVER_SCORES", scores)
            patch.setattr(segments, "_STEP_ROWS", rows)
            assert distance(engine.logits(PROMPT, repair=repair), expected) < limit
    with HookCount(engine) as hook:
        done = engine.generate(PROMPT, max_new_tokens=1, repair=repair)
    assert hook.tokens == done.usage.computed_tokens
    assert done.usage.repaired_tokens == len(positions)
    assert done.usage.fresh_tokens == sum(1 for t in given() if t.group == FRESH)
    assert done.usage.reused_tokens + done.usage.repaired_tokens + done.usage.fresh_tokens == len(real)
    assert done.repair == repair and done.encoding == "isolated" and done.layout == "reserved"
    assert not done.exact


def test_the_case_is_right_without_repair(engine):
    expected, limit = expect(engine.model, given())
    assert distance(engine.logits(PROMPT), expected) < limit


# a behind the intro, b behind a gap, its text behind the argument and behind the nested module, n behind b, c behind b,
# the schema's own text behind the union
NEW = [29, 30, *range(74, 79)]
SEAMS = [7, 24, 32, 44, 51, 52, 67]


def test_link_repairs_the_first_tokens_behind_every_seam(engine):
    assert repaired(engine, PROMPT, "link:1") == SEAMS
    for tokens_each in (3, 5):
        # one token stands between the nested module and the union
        ends = {51: 52}
        firsts = [p for s in SEAMS for p in range(s, min(s + tokens_each, ends.get(s, 512)))]
        check(engine, f"link:{tokens_each}", firsts)


def repaired(engine: PromptCache, prompt: str, repair: str) -> list[int]:
    runs = engine.plan(prompt, repair=repair).runs
    return [position for run in runs if run.kind == "repaired" for position in range(run.start, run.end)]


def test_link_goes_on_behind_a_seam_that_is_none(engine):
    # nothing is imported between ", more of it" and "!": the second still follows what it followed
    prompt = '<prompt schema="s"><b p="x"/>What?</prompt>'
    assert repaired(engine, prompt, "link:14") == [*range(24, 29), *range(32, 44), 51, *range(67, 74)]
    assert repaired(engine, '<prompt schema="s"><b/>What?</prompt>', "link:2") == [24, 25, 32, 33, 67, 68]


def by_attention(engine: PromptCache, start: list[Token], left_out: list[int]) -> list[int]:
    """Candidate positions, the one that matters most first."""
    mass = attention_of_fresh(engine.model, start)
    stored = [t.position for t in start if not t.ghost and t.group != FRESH and t.position >= 7]
    return in_order(start, mass, (p for p in stored if p not in left_out))


def test_query_repairs_what_the_new_text_attends_to(engine):
    stored = sum(1 for t in given() if not t.ghost and t.group != FRESH)
    order = by_attention(engine, given(), [])
    for share in (0.05, 0.2, 0.6):
        check(engine, f"query:{share:g}", sorted(order[: round(share * stored)]))


def test_combined_policies_take_turns(engine):
    stored = sum(1 for t in given() if not t.ghost and t.group != FRESH)
    # the seams are computed with the fresh tokens, whose attention alone counts
    mass = attention_of_fresh(engine.model, repair_tokens(given(), SEAMS), rows=NEW)
    rest = [t.position for t in given() if not t.ghost and t.group != FRESH and t.position >= 7]
    order = in_order(given(), mass, (p for p in rest if p not in SEAMS))
    check(engine, "link:1+query:0.1", sorted([*SEAMS, *order[: round(0.1 * stored)]]))
    first = by_attention(engine, given(), [])[: round(0.1 * stored)]
    check(engine, "query:0.1+link:1", sorted({*first, *SEAMS}))


def test_two_rounds(engine):
    stored = sum(1 for t in given() if not t.ghost and t.group != FRESH)
    first = by_attention(engine, given(), [])[: round(0.1 * stored)]
    mass = attention_of_fresh(engine.model, repair_tokens(given(), first), rows=NEW)
    rest = [t.position for t in given() if not t.ghost and t.group != FRESH and t.position >= 7]
    second = in_order(given(), mass, (p for p in rest if p not in first))[: round(0.1 * stored)]
    check(engine, "query:0.1+query:0.1", sorted([*first, *second]))


def test_full_is_the_stock_model(engine):
    real = sorted((t for t in given() if not t.ghost), key=lambda t: t.position)
    full = full_prefill_logits(engine.model, [t.id for t in real], [t.position for t in real])[-1]
    assert distance(engine.logits(PROMPT, repair="full"), full) < TOLERANCE
    done = engine.generate(PROMPT, max_new_tokens=3, repair="full")
    assert done.exact and done.usage.reused_tokens == 0
    assert done.usage.repaired_tokens + done.usage.fresh_tokens == len(real) == done.usage.computed_tokens
    assert done.token_ids == engine.generate(PROMPT, max_new_tokens=3, reuse=False).token_ids


def test_a_share_that_takes_all_is_full_without_asking(engine):
    done = engine.generate(PROMPT, max_new_tokens=1, repair="query:1")
    assert done.exact
    assert done.usage.reused_tokens == len("Intro. ")  # exact as it is
    assert done.usage.computed_tokens == done.usage.repaired_tokens + done.usage.fresh_tokens


@pytest.mark.parametrize("repair", ["link:8", "query:0.5", "link:2+query:0.5"])
def test_an_exact_prompt_pays_nothing(engine, repair):
    with HookCount(engine) as hook:
        done = engine.generate('<prompt schema="s">What?</prompt>', max_new_tokens=1, repair="none")
    assert not hook.tokens - done.usage.computed_tokens
    exact = '<schema name="e"><module name="a">alpha</module><module name="b">bravo</module></schema>'
    engine.load_schema(exact, replace=True)
    with HookCount(engine) as hook:
        done = engine.generate('<prompt schema="e"><a/>?</prompt>', max_new_tokens=1, repair=repair)
    assert done.exact and hook.tokens == done.usage.computed_tokens == 1


def test_nothing_fresh_asks_with_the_last_token(engine):
    prompt = '<prompt schema="e"><a/><b/></prompt>'
    engine.load_schema(
        '<schema name="e"><module name="a">alpha</module><module name="b">bravo</module></schema>', replace=True
    )
    start = tokens(b"alpha", 0, "a") + tokens(b"brav", 5, "b") + tokens(b"o", 9)
    mass = attention_of_fresh(engine.model, start)
    best = in_order(start, mass, range(5, 9))[0]
    expected, limit = expect(engine.model, repair_tokens(start, [best]))
    assert distance(engine.logits(prompt, repair="query:0.1"), expected) < limit
    assert engine.generate(prompt, max_new_tokens=1, repair="query:0.1").usage.repaired_tokens == 2


@pytest.mark.parametrize("encoding", ["isolated", "anchored"])
def test_scaffolds_and_anchors(encoding):
    engine = byte_engine(encoding=encoding)
    engine.load_schema(
        '<schema name="s">T.<module name="a">alpha</module><module name="b">bravo</module>'
        '<module name="c">charlie</module><scaffold modules="a b"/></schema>'
    )
    prompt = '<prompt schema="s"><a/><b/><c/>?</prompt>'
    anchor = tokens(b"T.", 0, "c", ghost=True) if encoding == "anchored" else []
    ab = tokens(b"T.", 0, "ab", ghost=True) + tokens(b"alpha", 2, "ab") + tokens(b"bravo", 7, "ab")
    start = tokens(b"T.", 0, "text") + ab + anchor + tokens(b"charlie", 12, "c") + tokens(b"?", 19)
    expected, limit = expect(engine.model, repair_tokens(start, [12, 13]))
    # joint states at the prompt's start are exact, so there is one seam
    assert distance(engine.logits(prompt, repair="link:2"), expected) < limit


@pytest.mark.parametrize("gathered", [0, 128])
def test_later_tokens_see_what_was_repaired(engine, gathered, monkeypatch):
    monkeypatch.setattr(segmented, "GATHERED_TOKENS", gathered)
    chosen = repair_tokens(given(), SEAMS)
    done = engine.generate(PROMPT, max_new_tokens=4, repair="link:1")
    for number, token in enumerate(done.token_ids):
        assert int(expect(engine.model, chosen)[0].argmax()) == token
        chosen.append(Token(token, 79 + number))


def test_continuations_do_not_tell_what_to_repair(engine):
    answers = ([65, 66, 67], [90, 91, 92])
    rows = [engine.continuation_logits(PROMPT, answer, repair="query:0.1")[0] for answer in answers]
    assert distance(*rows) < TOLERANCE
    assert distance(rows[0], engine.logits(PROMPT, repair="query:0.1")) < TOLERANCE


def test_who_asks_for_repair(engine):
    marked = PROMPT.replace('schema="s"', 'schema="s" repair="link:2"')
    of_engine = paper_engine(engine.model, engine.tokenizer, repair="link:3")
    of_engine.load_schema(SCHEMA)
    asked = [
        (engine, PROMPT, None, "none"),
        (engine, marked, None, "link:2"),
        (engine, marked, "none", "none"),
        (of_engine, PROMPT, None, "link:3"),
        (of_engine, marked, None, "link:2"),
        (of_engine, Prompt("s", ["a", "d"], text="?", repair="query:0.2"), None, "query:0.2"),
    ]
    for asking, prompt, repair, expected in asked:
        assert asking.generate(prompt, max_new_tokens=1, repair=repair).repair == expected
    done = of_engine.generate(PROMPT, max_new_tokens=1, reuse=False)
    assert done.repair == "none" and done.usage.repaired_tokens == 0


@pytest.mark.parametrize(
    "name",
    [
        "",
        "lnik:3",
        "link",
        "link:0",
        "link:x",
        "link:8:",
        "link:8:1",
        "link:8:nan",
        "link:8:3:3",
        "none:1",
        "query:0",
        "query:1.5",
        "query:nan",
        "link:8+",
        "full:2",
    ],
)
def test_unknown_policies_are_told(engine, name):
    with pytest.raises(RequestError, match="repair"):
        engine.generate(PROMPT, repair=name)
    with pytest.raises(RequestError, match="repair"):
        paper_engine(engine.model, engine.tokenizer, repair=name)
    with pytest.raises(PromptError) as raised:
        engine.plan(PROMPT.replace('schema="s"', f'schema="s" repair="{name}"'))
    assert raised.value.line == 1 and "link:8" in str(raised.value.hint)


def test_stored_states_stay_as_they_are(engine):
    before = engine.logits(PROMPT)
    for repair in ("link:4", "query:0.3", "full", "query:0.2+link:2"):
        first = engine.logits(PROMPT, repair=repair)
        assert distance(first, engine.logits(PROMPT, repair=repair)) == 0
    assert distance(before, engine.logits(PROMPT)) == 0


def test_a_session_repairs_in_every_turn(engine):
    talk = engine.session(PROMPT, repair="link:2")
    first = talk.send(max_new_tokens=3)
    assert first.repair == "link:2" and first.usage.repaired_tokens == 13
    with HookCount(engine) as hook:
        second = talk.send("More?", max_new_tokens=1)
    assert second.usage.repaired_tokens == 13
    assert hook.tokens == second.usage.computed_tokens
    assert second.usage.reused_tokens > first.usage.reused_tokens


def test_prepare_hands_over_repaired_states(engine):
    arguments = engine.prepare(PROMPT, repair="link:2")
    ids = engine.model.generate(**arguments, max_new_tokens=3, do_sample=False)
    expected = engine.generate(PROMPT, max_new_tokens=3, repair="link:2").token_ids
    assert tuple(ids[0, arguments["input_ids"].shape[1] :].tolist()) == expected


def test_a_family_that_runs_eager_is_asked_as_well():
    eager = paper_engine(byte_engine(attn_implementation="eager").model, byte_engine().tokenizer)
    eager.load_schema(SCHEMA)
    order = by_attention(eager, given(), [])
    stored = sum(1 for t in given() if not t.ghost and t.group != FRESH)
    expected, limit = expect(eager.model, repair_tokens(given(), order[: round(0.2 * stored)]))
    assert eager.attention == "assembled" and not eager._adapter.attends_segments
    assert distance(eager.logits(PROMPT, repair="query:0.2"), expected) < limit
