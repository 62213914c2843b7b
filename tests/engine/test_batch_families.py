"""Batches on every family that attends segments, windows included: the oracle, and each row alone."""

from __future__ import annotations

import pytest

from promptcache.runtime.batch import shared
from promptcache.runtime.batch.batch import Batch
from tests.engine.comparison import distance
from tests.engine.test_families import CASES, expected
from tests.families import FAMILIES, family_model
from tests.family_oracle import PROMPT, SCHEMA, SHORT, given
from tests.paper import paper_engine
from tests.tiny import byte_tokenizer

STEPS = 3
SEGMENTED = [(name, layout) for name, layout in CASES if "segments" in FAMILIES[name].paths]


@pytest.mark.parametrize("pooled", [128, 0])
@pytest.mark.parametrize(("name", "layout"), SEGMENTED, ids=lambda value: value)
def test_a_family_in_batches(name, layout, pooled, monkeypatch):
    monkeypatch.setattr(shared, "POOLED_TOKENS", pooled)
    engine = paper_engine(family_model(name), byte_tokenizer(), layout=layout, self_check=False)
    assert engine.attention == "segments"
    engine.load_schema(SCHEMA)
    asked = [
        (PROMPT, {}),
        (SHORT, {}),
        (PROMPT, {"repair": "link:3"}),
        (SHORT, {"reuse": False}),
        ("Why?", {}),
        (PROMPT, {}),
    ]
    requests, batch = engine._requests, Batch(engine._adapter)
    alone, tokens = {}, {}
    for step in range(STEPS):
        if step < 2:
            # Half of them join later.
            for prompt, options in asked[step::2]:
                planned = engine._planned(prompt, options.get("reuse", True), options.get("repair"))
                settled = requests.settle(planned)
                row = batch.join(settled.plan, settled.blocks)
                alone[row] = requests.state(planned, settled, STEPS), prompt, options
        for row, logits in batch.step(tokens).items():
            state, prompt, options = alone[row]
            right = state.step(tokens[row]) if row in tokens else state.prefill()[-1]
            limit = 2e-3
            if row not in tokens and not options and prompt in (PROMPT, SHORT):
                oracle, limit = expected(name, given(layout, prompt))
                # What a move of the whole prompt costs the stock model is told elsewhere: there the row alone counts.
                assert layout == "compact" or distance(logits[-1], oracle) < limit
            assert distance(logits[-1], right) < limit, (prompt, options, step)
            tokens[row] = int(right.argmax())


@pytest.mark.parametrize("name", ["gemma3", "mistral, window", "gpt2"])
def test_scores_in_batches(name):
    engine = paper_engine(family_model(name), byte_tokenizer(), self_check=False)
    prefix = engine.prefix("A text that stands before, longer than the window is.")
    items, labels = (
        [" Is it so? ", " No?", " Or is it something that nobody has thought of? "],
        ["yes", "yes, it is", "no"],
    )
    for found, item in zip(prefix.score_batch(items, labels), items, strict=True):
        for ours, right in zip(found, prefix.score(item, labels), strict=True):
            assert ours.logprob == pytest.approx(right.logprob, abs=2e-3)
