"""Every family against the oracle: each layout and attention path that it has, and eight decode steps behind."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch

from promptcache.runtime.states import segmented
from tests.engine.comparison import TOLERANCE, distance
from tests.engine.family_steps import beside_oracle
from tests.families import FAMILIES, family_model
from tests.family_oracle import PROMPT, SCHEMA, SHORT, given, last_logits
from tests.oracle import Token
from tests.paper import paper_engine
from tests.tiny import byte_tokenizer

STEPS = 8
CASES = [(name, layout) for name, family in FAMILIES.items() for layout in family.layouts]


def expected(name: str, asked: list[Token]) -> tuple[torch.Tensor, float]:
    """The oracle's logits, and how close reuse must come: see `tests.engine.comparison.expect`."""
    model, family = family_model(name), FAMILIES[name]
    logits = last_logits(model, family, asked)
    exact = last_logits(copy.deepcopy(model).double(), family, asked)
    limit = TOLERANCE + 2 * distance(logits, exact)
    assert limit < 100 * TOLERANCE
    return logits, limit


@pytest.mark.parametrize("prompt", [PROMPT, SHORT], ids=["long", "short"])
@pytest.mark.parametrize(("name", "layout"), CASES, ids=lambda value: value)
def test_a_family_equals_the_oracle(name, layout, prompt, monkeypatch):
    model, family = family_model(name), FAMILIES[name]
    asked = given(layout, prompt)
    moved = [replace(token, position=token.position + 40) for token in asked]
    shifted = 0.0 if layout == "reserved" else distance(*(last_logits(model, family, each) for each in (asked, moved)))
    logits, limit = expected(name, asked)
    # Every token must count: with another module the answer is another.
    assert distance(logits, last_logits(model, family, given(layout, SHORT if prompt == PROMPT else PROMPT))) > 0.1
    engines = [paper_engine(model, byte_tokenizer(), layout=layout, attention=path) for path in family.paths]
    for engine in engines:
        engine.load_schema(SCHEMA)
        plan = engine.plan(prompt)
        real = sorted((t for t in asked if not t.ghost), key=lambda t: t.position)
        assert list(plan.token_ids) == [t.id for t in real]
        assert list(plan.position_ids) == [t.position for t in real]
    sides = []
    for engine in engines:
        for gathered in (128, 0) if engine.attention == "segments" else (0,):
            monkeypatch.setattr(segmented, "GATHERED_TOKENS", gathered)
            sides.append(list(beside_oracle(engine, family, prompt, given(layout, prompt), STEPS)))
    for step, founds in enumerate(zip(*sides, strict=True)):
        if step:
            asked.append(Token(int(logits.argmax()), asked[-1].position + 1))
            logits, limit = expected(name, asked)
        for found, right in founds:
            assert torch.equal(right, logits)
            assert distance(found, right) < limit + 2 * shifted
