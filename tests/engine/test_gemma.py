"""A real model with windows, where its wheels are installed (`make gemma`): modules longer than its 512 tokens."""

from __future__ import annotations

import pytest

from promptcache.models.loading import LoadedModel, load_model
from tests.engine.comparison import TOLERANCE, distance
from tests.families import Family
from tests.family_oracle import last_logits
from tests.gemma import gemma_folder, is_installed
from tests.oracle import Token, tokens
from tests.paper import paper_engine

if not is_installed():
    pytest.skip("the wheels of Gemma 3 270M are not installed", allow_module_level=True)

pytestmark = pytest.mark.model

TEXT = "The tide tables list high water twice a day, and the pilots read them before every departure. "
SCHEMA = (
    f'<schema name="s">Notes.<module name="a">{TEXT * 6}</module><module name="out">{TEXT * 3}</module>'
    f'<module name="b">{TEXT * 30}The key is in the blue box.</module></schema>'
)
PROMPT = '<prompt schema="s"><a/><b/>Where is the key? It is in the</prompt>'


@pytest.fixture(scope="module")
def gemma() -> LoadedModel:
    return load_model(gemma_folder())


@pytest.mark.parametrize("attention", ["segments", "assembled"])
def test_modules_on_both_sides_of_the_window_equal_the_oracle(gemma, attention):
    engine = paper_engine(gemma.model, gemma.tokenizer, attention=attention)
    windows = engine._adapter.windows
    assert set(windows) == {None, 512} and engine._adapter.max_positions == 32768
    engine.load_schema(SCHEMA)
    plan = engine.plan(PROMPT)
    given: list[Token] = []
    for run in plan.runs:
        group = f"pass {run.segment.encoding_pass}" if run.kind == "reused" else "fresh"
        given += tokens(run.ids, run.start, group)
    assert max(run.length for run in plan.runs) > 512 and plan.position_ids[-1] - 512 > plan.runs[-2].start
    right = last_logits(gemma.model, Family("Gemma3TextConfig", {}, "rotary", windows=windows), given)
    assert distance(engine.logits(PROMPT), right) < TOLERANCE
    assert "blue" in engine.generate(PROMPT, max_new_tokens=3).text
