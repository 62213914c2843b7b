"""Which modules make sense only behind others: the measure is what the stock model says, and the default model finds
what was planted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from promptcache import Prompt, Schema
from promptcache.layout.plan import RequestPlan
from promptcache.runtime.verify import verify
from promptcache.runtime.verify.leaning import pairs
from promptcache.runtime.verify.unrelated import unrelated
from promptcache.runtime.verify.verification import Leaning, ModuleReport, Remedy, Verification
from tests.engine.comparison import byte_engine
from tests.engine.test_repair_against_oracle import PROMPT, SCHEMA, given
from tests.families import family_model
from tests.oracle import full_prefill_logits, stock_attention
from tests.paper import paper_engine
from tests.tiny import IM_START, byte_tokenizer


def surprise(logits: torch.Tensor, read: Sequence[int]) -> float:
    """Nats a token of what was read last, but for its first one."""
    told = logits[-len(read) : -1].double().log_softmax(-1)
    return -float(told[range(len(read) - 1), list(read[1:])].mean())


def expected(surprises: Sequence[float]) -> tuple[float, float]:
    """Gain and control, from the surprise behind the module and behind each of the other texts."""
    own, *others = surprises
    rest = [(sum(others) - each) / (len(others) - 1) - each for each in others]
    return sum(others) / len(others) - own, max(map(abs, rest))


def test_the_gain_is_the_stock_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a module behind one with an argument and a nested module, which stands behind a gap."""
    engine = byte_engine()
    engine.load_schema(SCHEMA)
    found = {(each.on, each.path): each for each in engine.verify(PROMPT).leanings}
    assert {("a", "b"), ("a", "c"), ("b", "c"), ("b", "b/n")} <= found.keys()
    assert ("b/n", "b") not in found and not any(path == "" for pair in found for path in pair)

    prompt = {t.position: t.id for t in given() if not t.ghost}
    before, place = [p for p in prompt if p < 24], sorted(p for p in prompt if 24 <= p < 52)
    for on, path, seen, stood, read in (
        ("b", "c", before, place, b"charlie"),
        ("b", "b/n", before, [p for p in place if p < 44], b"-nested"),
        ("a", "c", range(7), range(7, 21), b"charlie"),
    ):
        own = [prompt[p] for p in stood]
        surprises = []
        for text in (own, *unrelated(engine._tokenizer, own)):
            assert len(text) == len(own)
            ids = [*(prompt[p] for p in sorted(seen)), *text, *read]
            positions = [*sorted(seen), *stood, *range(stood[-1] + 1, stood[-1] + 1 + len(read))]
            surprises.append(surprise(full_prefill_logits(engine.model, ids, positions), read))
        gain, control = expected(surprises)
        assert found[on, path].gain == pytest.approx(gain, abs=1e-4)
        assert found[on, path].control == pytest.approx(control, abs=1e-4)


@pytest.mark.parametrize("name", ["bloom", "gemma2", "gemma3", "gpt2"])
def test_families(name: str) -> None:
    layout = "reserved" if name == "gpt2" else "compact"
    engine = paper_engine(family_model(name), byte_tokenizer(), layout=layout, self_check=False)
    engine.load_schema(
        '<schema name="s">Intro.<module name="a">what was before it all</module>'
        '<module name="b">and what came then</module></schema>'
    )
    (found,) = engine.verify('<prompt schema="s"><a/><b/>?</prompt>', max_new_tokens=2).leanings
    surprises = []
    for text in (own := list(b"what was before it all"), *unrelated(engine._tokenizer, own)):
        ids = torch.tensor([[*b"Intro.", *text, *b"and what came then"]])
        with stock_attention(engine.model), torch.no_grad():
            surprises.append(surprise(engine.model(input_ids=ids).logits[0].float(), list(b"and what came then")))
    assert (found.gain, found.control) == pytest.approx(expected(surprises), abs=1e-3)


def test_unrelated_texts_are_as_long_and_keep_special_tokens() -> None:
    engine = byte_engine()
    for ids in ([1], [IM_START, *b"user\n", *b"x" * 700, IM_START], list(b"some text")):
        texts = unrelated(engine._tokenizer, ids)
        assert len(texts) == 5
        for text in texts:
            assert len(text) == len(ids)
            assert [n for n, t in enumerate(text) if t == IM_START] == [n for n, t in enumerate(ids) if t == IM_START]
    assert all(bytes(text).endswith(b".\n") for text in unrelated(engine._tokenizer, b"some text"))


def report(path: str, attention: float, distance: float = 0.1, exact: bool = False) -> ModuleReport:
    return ModuleReport(path, 5, attention, distance, exact)


def test_pairs_are_of_what_is_attended_to_and_saw_too_little() -> None:
    engine = byte_engine()
    engine.load_schema(SCHEMA)
    plan: RequestPlan = engine.plan(PROMPT)
    modules = [report("", 0.4), report("a", 0.05, exact=True), report("b", 0.1, 0.3), report("b/n", 0.009)]
    assert pairs(plan, [*modules, report("c", 0.2)]) == [("c", "b"), ("b", "a"), ("c", "a"), ("c", "b/n")]
    assert pairs(plan, [report("b", 0.1), report("c", 0.2)]) == [("c", "b"), ("b", "a"), ("c", "b/n"), ("c", "a")]
    assert pairs(plan, [report("a", 0.5)]) == []


def test_pairs_beyond_the_limit_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = byte_engine()
    engine.load_schema(SCHEMA)
    every = engine.verify(PROMPT)
    assert len(every.leanings) == 6 and every.pairs_left_out == 0
    monkeypatch.setattr(verify, "_PAIRS", 2)
    some = engine.verify(PROMPT)
    assert some.leanings == every.leanings[:2] and some.pairs_left_out == 4
    assert len([each for each in some.remedies if each.scaffold]) <= 2


def test_one_token_is_not_read_and_repeats_are_read_once() -> None:
    engine = byte_engine(layout="compact")
    engine.load_schema(
        '<schema name="s"><module name="a">x</module><module name="b">second</module></schema>', replace=True
    )
    found = engine.verify('<prompt schema="s"><a/><b/><a/><b/>?</prompt>')
    assert [(each.on, each.path) for each in found.leanings] == [("a", "b")]
    assert not engine.verify('<prompt schema="s"><b/><a/>?</prompt>').leanings


def verification(leanings: Sequence[Leaning], *remedies: Remedy) -> Verification:
    values: dict[str, Any] = dict.fromkeys(Verification.__dataclass_fields__)
    values |= {"exact": False, "mean_kl": 1.0, "leanings": tuple(leanings), "remedies": remedies}
    return Verification(**values)


def test_what_leans_is_recommended_first() -> None:
    leaning, chance = Leaning("details", "history", 0.31, 0.2), Leaning("other", "history", 0.29, 0.2)
    assert leaning.leans and not chance.leans and not Leaning("b", "a", -1.0, 0.1).leans
    seams = Remedy("link:16", 0.4, 30)
    together, better = (Remedy("link:16", kl, 20, ("history", path)) for kl, path in ((0.2, "details"), (0.1, "other")))
    text = verification([chance, leaning], seams, better, together).recommendation
    assert text.startswith(
        '`details` leans on `history`: put them in a scaffold, <scaffold modules="history details"/> '
        "(with link:16, KL 0.400 becomes 0.200), or use"
    )
    text = verification([chance, leaning], seams, better, Remedy("link:16", 0.3, 20, together.scaffold)).recommendation
    assert text.startswith("`history` and `other` do better encoded together")


CONTRACT = {
    "definitions": "In this contract 'the Object' means the red tractor and 'the Holder' means Peter Lund.",
    "harbour": "The harbour of Norvik has three piers and a lighthouse that was built in 1871.",
    "duties": "The Holder must keep the Object under a roof, wash it each month and return it to the Lender on the "
    "first of May.",
}


@pytest.mark.model
def test_a_planted_dependence_and_a_planted_independence(real_engine_model: Any) -> None:
    engine = paper_engine(real_engine_model.model, real_engine_model.tokenizer)
    schema = Schema.from_modules(CONTRACT, name="contract", intro="Answer from these notes.", role="user")
    engine.load_schema(schema)
    prompt = Prompt(schema="contract", imports=list(CONTRACT), text="What must Peter Lund return on the first of May?")
    found = engine.verify(prompt, max_new_tokens=8)
    assert {(each.on, each.path): each.leans for each in found.leanings} == {
        ("definitions", "harbour"): False,
        ("definitions", "duties"): True,
        ("harbour", "duties"): False,
    }
    assert found.recommendation.startswith("`duties` leans on `definitions`: put them in a scaffold")

    # What is recommended does bring the answer closer.
    scaffold = schema.to_xml().replace("</schema>", '<scaffold modules="definitions duties"/></schema>')
    engine.load_schema(scaffold, replace=True)
    mended = engine.verify(prompt, max_new_tokens=8)
    assert mended.mean_kl < found.mean_kl
    assert engine.verify(prompt, max_new_tokens=8, repair="link:16").mean_kl == pytest.approx(
        next(each.mean_kl for each in found.remedies if each.scaffold == ("definitions", "duties")), rel=1e-3
    )
