"""Where the new text's attention falls is the same told from states where they lie as from a copy of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest
import torch

from promptcache import PromptCache
from promptcache.kv import stored_mass
from promptcache.layout.repaired import repaired
from promptcache.runtime.repair.probe import AttentionProbe
from promptcache.runtime.states import segmented
from tests.engine.test_counts import HookCount
from tests.families import FAMILIES, family_model
from tests.family_oracle import PROMPT, SCHEMA, SHORT
from tests.paper import paper_engine
from tests.tiny import byte_tokenizer

NAMES = [
    "llama, grouped heads, head_dim 24",
    "mistral, window",
    "gemma3",
    "stablelm",
    "gptj",
    "smollm3",
    "gpt2",
    "granite",
]


def shares(engine: PromptCache, attention: str, prompt: str, again: Collection[int]) -> Mapping[int, float]:
    """By position of each stored token, with those at `again` among the computed ones."""
    planned = engine._planned(prompt, True, "none")
    settled = engine._requests.settle(planned)
    assert planned.layout is not None
    plan = repaired(settled.plan, again, planned.layout.passes)
    probe = AttentionProbe(engine._adapter, settled.blocks, attention)
    with HookCount(engine) as hook:
        found = probe.attention(plan)
    assert hook.tokens == probe.computed_tokens == plan.num_tokens - plan.count("reused")
    assert list(found) == [p for run in plan.runs if run.kind == "reused" for p in range(run.start, run.end)]
    return found


@pytest.mark.parametrize("layout", ["reserved", "compact"])
@pytest.mark.parametrize("name", NAMES)
def test_segments_equal_a_copy(name: str, layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if layout not in FAMILIES[name].layouts:
        pytest.skip("the family does not have this layout")
    engine = paper_engine(family_model(name), byte_tokenizer(), layout=layout, attention="segments", self_check=False)
    engine.load_schema(SCHEMA)
    # Few keys and rows at a time: what is summed in parts is the same.
    monkeypatch.setattr(stored_mass, "_ROWS", 3)
    monkeypatch.setattr(stored_mass, "_KEYS", 5)
    stored = [p for run in engine.plan(PROMPT).runs if run.kind == "reused" for p in range(run.start, run.end)]
    for prompt, again in ((SHORT, []), (PROMPT, []), (PROMPT, [stored[1], *stored[-6:-3]])):
        copied = shares(engine, "assembled", prompt, again)
        assert 0.1 < sum(copied.values()) < 1
        for gathered in (0, 9, 128):
            monkeypatch.setattr(segmented, "GATHERED_TOKENS", gathered)
            found = shares(engine, "segments", prompt, again)
            assert max(abs(found[p] - copied[p]) for p in copied) < 1e-5


def test_half_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    model = family_model("llama", torch.bfloat16)
    engine = paper_engine(model, byte_tokenizer(), attention="segments", self_check=False)
    engine.load_schema(SCHEMA)
    monkeypatch.setattr(segmented, "GATHERED_TOKENS", 0)
    copied, found = (shares(engine, path, PROMPT, []) for path in ("assembled", "segments"))
    assert max(abs(found[p] - copied[p]) for p in copied) < 2e-2
