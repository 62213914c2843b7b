"""`auto:S` spends what the share allows, and no more."""

from __future__ import annotations

import pytest

from promptcache import PromptCache
from promptcache.runtime.repair import auto
from tests.engine.comparison import byte_engine

SCHEMA = (
    '<schema name="s"><module name="a">the first module of the schema</module>'
    '<module name="b">the second module, which is longer</module><module name="c">and the last one</module></schema>'
)
PROMPT = '<prompt schema="s"><a/><b/><c/>Why?</prompt>'


@pytest.fixture(scope="module")
def engine() -> PromptCache:
    made = byte_engine()
    made.load_schema(SCHEMA)
    return made


@pytest.mark.parametrize("share", [0.05, 0.1, 0.15, 0.2, 0.35, 0.6, 1])
@pytest.mark.parametrize("least", [1, 6])
def test_it_stays_within_its_share(engine: PromptCache, share: float, least: int, monkeypatch) -> None:
    monkeypatch.setattr(auto, "LEAST_PASS", least)
    done = engine.generate(PROMPT, max_new_tokens=1, repair=f"auto:{share}")
    none = engine.generate(PROMPT, max_new_tokens=1)
    assert done.repair == f"auto:{share:g}"
    fresh, repaired = none.usage.computed_tokens, done.usage.repaired_tokens
    asked = done.usage.computed_tokens > fresh + repaired
    spent = max(fresh + repaired, least) + asked * max(fresh, least)
    assert spent <= max(share * done.usage.prompt_tokens + 1, least)
    if share >= 0.2 and not done.exact:
        assert spent > share * done.usage.prompt_tokens - least - 4


def test_little_goes_to_the_seams_and_more_to_what_is_asked_for(engine: PromptCache, monkeypatch) -> None:
    monkeypatch.setattr(auto, "LEAST_PASS", 6)
    tokens = engine.plan(PROMPT).num_tokens
    link = engine.generate(PROMPT, max_new_tokens=1, repair=f"auto:{11 / tokens + 0.001:.4f}")
    assert link.usage.repaired_tokens == 4 == link.usage.computed_tokens - 4  # two seams, two tokens each
    assert engine.plan(PROMPT, repair=f"auto:{11 / tokens + 0.001:.4f}").count("repaired") == 4
    query = engine.generate(PROMPT, max_new_tokens=1, repair=f"auto:{20 / tokens + 0.001:.4f}")
    assert query.usage.repaired_tokens == 20 - 6 - 6
    assert query.usage.computed_tokens == 4 + 4 + 8
    none = engine.generate(PROMPT, max_new_tokens=1, repair=f"auto:{5 / tokens:.4f}")
    assert none.usage.repaired_tokens == 0


def test_an_exact_prompt_pays_nothing(engine: PromptCache) -> None:
    done = engine.generate('<prompt schema="s"><a/>?</prompt>', max_new_tokens=1, repair="auto:0.9")
    assert done.exact and done.usage.computed_tokens == 1
