"""Windows count positions: shown by what happens to code that counts slots, and on all ways to run a request."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from promptcache import PromptCache
from promptcache.errors import RequestError
from promptcache.kv.window import Windows
from promptcache.models.adapter import ModelAdapter
from promptcache.runtime import encoder
from promptcache.runtime.states import segmented
from tests.engine.comparison import TOLERANCE, distance
from tests.engine.test_families import expected
from tests.families import FAMILIES, family_model
from tests.family_oracle import PROMPT, SCHEMA, SHORT, given
from tests.oracle import tokens
from tests.paper import paper_engine
from tests.tiny import byte_tokenizer

WINDOWED = [name for name, family in FAMILIES.items() if any(family.windows)]
PATHS = [(name, path) for name in WINDOWED for path in FAMILIES[name].paths]


def engine_on(name: str, path: str, layout: str = "reserved") -> PromptCache:
    engine = paper_engine(family_model(name), byte_tokenizer(), layout=layout, attention=path, self_check=False)
    engine.load_schema(SCHEMA)
    return engine


def in_order(positions: torch.Tensor, *more: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Positions as the numbers of tokens in their order: what someone who counts slots takes them for."""
    known = torch.cat([positions, *more]).unique()
    return tuple(torch.searchsorted(known, each) for each in (positions, *more))


@pytest.mark.parametrize("prompt", [PROMPT, SHORT], ids=["long", "short"])
@pytest.mark.parametrize(("name", "path"), PATHS, ids=lambda value: value)
def test_a_window_that_counts_slots_is_noticed(name, path, prompt, monkeypatch):
    """The module that the window cuts is longer than it in one prompt; in the other a gap is."""
    engine = engine_on(name, path)
    logits, limit = expected(name, given("reserved", prompt))
    assert distance(engine.logits(prompt), logits) < limit

    def by_slot(widths: Any, rows: torch.Tensor, tail: torch.Tensor, views: Any) -> Windows:
        rows, tail, *rest = in_order(rows, tail, *views)
        return Windows(widths, rows, tail, tuple(rest))

    def mask_by_slot(self: Any, positions: Any, keys: Any, among: Any = None) -> Any:
        return mask(self, *(each.tolist() for each in in_order(torch.tensor(positions), torch.tensor(keys))), among)

    mask = ModelAdapter.position_mask
    monkeypatch.setattr(segmented, "Windows", by_slot)
    monkeypatch.setattr(ModelAdapter, "position_mask", mask_by_slot)
    wrong = distance(engine.logits(prompt), logits)
    # In the long prompt nothing within the window of the question stands before a gap.
    assert wrong > 100 * TOLERANCE if prompt == SHORT else wrong < limit


@pytest.mark.parametrize(("name", "path"), PATHS, ids=lambda value: value)
def test_a_module_with_a_gap_wider_than_the_window_is_encoded_by_position(name, path, monkeypatch):
    """What stands behind the module that is left out sees nothing of what is before it in layers with a window."""
    schema = (
        '<schema name="s"><module name="a">stands before'
        '<module name="b">a nested text that is long</module>behind it</module></schema>'
    )
    asked = [*tokens(b"stands before", 0, "a"), *tokens(b"behind it", 39, "a"), *tokens(b"?", 48)]
    logits, limit = expected(name, asked)

    def found() -> float:
        engine = engine_on(name, path)
        engine.load_schema(schema, replace=True)
        assert [run.start for run in engine.plan('<prompt schema="s"><a/>?</prompt>').runs] == [0, 39, 48]
        return distance(engine.logits('<prompt schema="s"><a/>?</prompt>'), logits)

    assert found() < limit  # in one pass with what it is nested in
    monkeypatch.setattr(encoder, "PACKED_TOKENS", 0)
    assert found() < limit
    monkeypatch.setattr(ModelAdapter, "_own_mask", lambda *_: None)
    assert found() > 100 * TOLERANCE


@pytest.mark.parametrize("name", WINDOWED)
def test_generate_of_transformers_counts_slots_and_is_refused_gaps(name):
    engine = engine_on(name, FAMILIES[name].paths[0])
    with pytest.raises(RequestError, match="window") as caught:
        engine.prepare(PROMPT)
    assert "compact" in (caught.value.hint or "")
    compact = engine_on(name, FAMILIES[name].paths[0], "compact")
    arguments = compact.prepare(PROMPT)
    ids = compact.model.generate(**arguments, max_new_tokens=4, do_sample=False)[0, arguments["input_ids"].shape[1] :]
    assert ids.tolist() == list(compact.generate(PROMPT, max_new_tokens=4).token_ids)
