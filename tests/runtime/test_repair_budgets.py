"""`auto:S`, `within:f` and `link:k:f` spend what they may, and no more."""

from __future__ import annotations

import pytest

from promptcache import Prompt, PromptCache, Schema
from promptcache.config import DEFAULT_REPAIR
from promptcache.runtime.repair import cost
from promptcache.runtime.repair.cost import pass_cost
from tests.engine.comparison import byte_engine

MODULES = ("the first module of the schema", "the second module, which is longer", "and the last one")
SCHEMA = "<schema name='s'>{}</schema>".format(
    "".join(f'<module name="{name}">{text}</module>' for name, text in zip("abc", MODULES, strict=True))
)
PROMPT = '<prompt schema="s"><a/><b/><c/>Why?</prompt>'


@pytest.fixture(scope="module")
def engine() -> PromptCache:
    made = byte_engine()
    made.load_schema(SCHEMA)
    return made


@pytest.mark.parametrize("share", [0.05, 0.1, 0.15, 0.2, 0.35, 0.6, 1])
@pytest.mark.parametrize("beside", [0, 4])
def test_it_stays_within_its_share(engine: PromptCache, share: float, beside: int, monkeypatch) -> None:
    monkeypatch.setattr(cost, "PASS_TOKENS", beside)
    done = engine.generate(PROMPT, max_new_tokens=1, repair=f"auto:{share}")
    none = engine.generate(PROMPT, max_new_tokens=1)
    assert done.repair == f"auto:{share:g}"
    fresh, repaired = none.usage.computed_tokens, done.usage.repaired_tokens
    asked = done.usage.computed_tokens > fresh + repaired
    spent = fresh + repaired + beside + asked * (fresh + beside)
    budget = share * (done.usage.prompt_tokens + beside)
    assert spent <= max(budget + 1, fresh + beside)
    if share >= 0.2 and not done.exact:
        assert spent > budget - 2


def test_little_goes_to_the_seams_and_more_to_what_is_asked_for(engine: PromptCache, monkeypatch) -> None:
    monkeypatch.setattr(cost, "PASS_TOKENS", 2)
    tokens = engine.plan(PROMPT).num_tokens + 2

    def share(of_tokens: int) -> str:
        return f"auto:{of_tokens / tokens + 0.001:.4f}"

    # Four new tokens and two beside them are computed anyway. There are two seams.
    link = engine.generate(PROMPT, max_new_tokens=1, repair=share(11))
    assert link.usage.repaired_tokens == 4 == link.usage.computed_tokens - 4
    assert engine.plan(PROMPT, repair=share(11)).count("repaired") == 4
    assert engine.plan(PROMPT, repair=share(17)).count("repaired") == 10
    query = engine.generate(PROMPT, max_new_tokens=1, repair=share(18))
    assert query.usage.repaired_tokens == 18 - 6 - 6
    assert query.usage.computed_tokens == 4 + 4 + 6
    assert engine.generate(PROMPT, max_new_tokens=1, repair=share(7)).usage.repaired_tokens == 0


def test_an_exact_prompt_pays_nothing(engine: PromptCache) -> None:
    done = engine.generate('<prompt schema="s"><a/>?</prompt>', max_new_tokens=1, repair="auto:0.9")
    assert done.exact and done.usage.computed_tokens == 1


@pytest.mark.parametrize(("times", "each"), [(1.4, 0), (1.5, 1), (2.1, 2), (3, 4), (12, 28)])
def test_within_spends_on_all_seams_alike(engine: PromptCache, times: float, each: int, monkeypatch) -> None:
    monkeypatch.setattr(cost, "PASS_TOKENS", 0)
    done = engine.generate(PROMPT, max_new_tokens=1, repair=f"within:{times}")
    assert done.usage.repaired_tokens == sum(min(each, len(text)) for text in MODULES[1:])
    assert done.usage.computed_tokens == 4 + done.usage.repaired_tokens <= 4 * times


@pytest.mark.parametrize(("times", "each"), [(1.4, 0), (1.5, 1), (3, 4), (4.9, 7), (5, 8), (50, 8)])
def test_link_with_a_limit_is_link_up_to_it(engine: PromptCache, times: float, each: int, monkeypatch) -> None:
    monkeypatch.setattr(cost, "PASS_TOKENS", 0)
    name = f"link:8:{times:g}"
    done = engine.generate(PROMPT, max_new_tokens=1, repair=name)
    assert done.repair == name and done.usage.repaired_tokens == 2 * each <= 4 * (times - 1)
    plain = engine.plan(PROMPT, repair=f"link:{each}" if each else "none")
    assert [run.kind for run in engine.plan(PROMPT, repair=name).runs] == [run.kind for run in plain.runs]


def test_many_short_modules_do_not_make_the_default_slow(engine: PromptCache) -> None:
    lines = {f"line-{n}": f"The line {n:02}." for n in range(36)}
    engine.load_schema(Schema.from_modules(lines, name="lines"))
    prompt = Prompt(schema="lines", imports=list(lines), text="Why?")
    assert engine.plan(prompt, repair="link:8").num_computed == 4 + 35 * 8
    assert pass_cost(engine.plan(prompt, repair=DEFAULT_REPAIR).num_computed) <= 3 * pass_cost(4)
