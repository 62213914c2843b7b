"""`verify`: what it measures is what the engine and the oracle give, and its remedies are what they say."""

from __future__ import annotations

import pytest
import torch

from promptcache import PromptCache
from promptcache.errors import LayoutError, RequestError
from tests.engine.comparison import byte_engine, distance
from tests.engine.test_repair_against_oracle import PROMPT, SCHEMA, given
from tests.oracle import full_prefill_logits


@pytest.fixture(scope="module")
def engine() -> PromptCache:
    made = byte_engine()
    made.load_schema(SCHEMA)
    return made


def kl(full: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    p, q = (logits.double().log_softmax(-1) for logits in (full, other))
    return (p.exp() * (p - q)).sum(-1)


def test_figures_along_a_given_answer(engine):
    found = engine.verify(PROMPT, answer="yes", max_new_tokens=5)
    real = sorted((t for t in given() if not t.ghost), key=lambda t: t.position)
    ids = [*(t.id for t in real), *b"ye"]
    places = [*(t.position for t in real), real[-1].position + 1, real[-1].position + 2]
    full = full_prefill_logits(engine.model, ids, places)[-3:]
    reuse = engine.continuation_logits(PROMPT, list(b"yes"))
    assert found.answer == "yes"
    assert found.first_kl == pytest.approx(float(kl(full, reuse)[0]), rel=1e-3)
    assert found.mean_kl == pytest.approx(float(kl(full, reuse).mean()), rel=1e-3)
    assert found.top1 is (int(full[0].argmax()) == int(reuse[0].argmax()))
    for logits, nll in ((full, found.full_nll), (reuse, found.nll)):
        told = -logits.double().log_softmax(-1)[range(3), list(b"yes")].mean()
        assert nll == pytest.approx(float(told), abs=1e-4)
    assert not found.exact and found.prompt_tokens == len(real)


def test_greedy_agreement_and_the_generated_answer(engine):
    found = engine.verify(PROMPT, max_new_tokens=6)
    full = engine.generate(PROMPT, max_new_tokens=6, reuse=False)
    reuse = engine.generate(PROMPT, max_new_tokens=6)
    same = next((n for n in range(6) if full.token_ids[n] != reuse.token_ids[n]), 6)
    assert found.agreement == same / 6 and found.greedy_tokens == 6
    assert found.answer == full.text


def test_modules(engine):
    found = engine.verify(PROMPT)
    modules = {module.path: module for module in found.modules}
    assert list(modules) == ["", "a", "b", "b/n", "c"]
    assert {path: module.tokens for path, module in modules.items()} == {"": 14, "a": 14, "b": 18, "b/n": 7, "c": 7}
    assert 0.5 < sum(module.attention for module in found.modules) < 1
    assert all(module.distance > 0.1 and not module.exact for module in found.modules)
    engine.load_schema('<schema name="e">Intro.<module name="a">aa</module><module name="b">bb</module></schema>')
    intro, a, b = engine.verify('<prompt schema="e"><a/><b/>?</prompt>').modules
    assert intro.exact and intro.distance < 1e-5
    assert not a.exact and a.distance > 0.1 and b.distance > 0.1


def test_remedies_are_what_they_say(engine):
    found = engine.verify(PROMPT, answer="yes")
    full = engine.continuation_logits(PROMPT, list(b"yes"), reuse=False)
    by_policy = {each.repair: each for each in found.remedies if not each.scaffold}
    assert list(by_policy) == ["link:16", "query:0.15"]
    for name, remedy in by_policy.items():
        left = float(kl(full, engine.continuation_logits(PROMPT, list(b"yes"), repair=name)).mean())
        assert remedy.mean_kl == pytest.approx(left, rel=1e-3, abs=1e-6)
        assert remedy.repaired_tokens == engine.generate(PROMPT, max_new_tokens=1, repair=name).usage.repaired_tokens
    scaffolds = [each for each in found.remedies if each.scaffold]
    assert 4 <= len(scaffolds) <= 8
    held = len(engine.store)
    for remedy in scaffolds:
        other = byte_engine()
        other.load_schema(SCHEMA.replace("</schema>", f'<scaffold modules="{" ".join(remedy.scaffold)}"/></schema>'))
        left = float(kl(full, other.continuation_logits(PROMPT, list(b"yes"), repair="link:16")).mean())
        assert remedy.mean_kl == pytest.approx(left, rel=1e-3, abs=1e-6)
    assert len(engine.store) == held and engine.schemas["s"].layout.scaffolds == ()


def test_states_made_to_verify_are_not_kept(engine):
    before, held = engine.logits(PROMPT), len(engine.store)
    engine.verify(PROMPT)
    assert len(engine.store) == held
    assert distance(engine.logits(PROMPT), before) == 0


def test_an_exact_prompt_needs_nothing(engine):
    for prompt in ("plain text", '<prompt schema="s">?</prompt>'):
        found = engine.verify(prompt)
        assert found.exact and found.mean_kl < 1e-6 and found.agreement == 1 and not found.remedies
        assert "exact" in found.recommendation
    found = engine.verify(PROMPT, repair="full")
    assert found.exact and found.mean_kl < 1e-6 and found.repair == "full" and not found.modules


def test_a_recommendation_names_the_modules(engine):
    # encoded together the two are exact, and nothing else is in the prompt
    engine.load_schema(
        '<schema name="two"><module name="history">what was before</module>'
        '<module name="details">and all the rest of it, that came then</module></schema>',
        replace=True,
    )
    found = engine.verify('<prompt schema="two"><history/><details/>?</prompt>', answer="ok")
    assert found.mean_kl > 0.02
    (remedy,) = (each for each in found.remedies if each.scaffold)
    assert remedy.scaffold == ("history", "details") and remedy.mean_kl < 1e-6
    assert found.recommendation.startswith("`history` and `details` do better encoded together")
    assert '<scaffold modules="history details"/>' in found.recommendation


def test_wrong_arguments(engine):
    with pytest.raises(RequestError, match="max_new_tokens"):
        engine.verify(PROMPT, max_new_tokens=0)
    with pytest.raises(RequestError, match="no tokens"):
        engine.verify(PROMPT, answer="")
    with pytest.raises(LayoutError, match="reach position"):
        engine.verify(PROMPT, answer="x" * 600)
