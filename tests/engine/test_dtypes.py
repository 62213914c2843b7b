"""Half precision: where greedy tokens diverge from the oracle's it is the dtype's own noise, and nothing is random."""

from __future__ import annotations

import copy

import pytest
import torch

from promptcache import StoreConfig
from promptcache.models.adapter import ModelAdapter
from tests.engine.family_steps import beside_oracle
from tests.families import FAMILIES, family_model
from tests.family_oracle import PROMPT, SCHEMA, given, last_logits
from tests.paper import paper_engine
from tests.tiny import byte_tokenizer, tiny_llama

STEPS = 8


@pytest.mark.parametrize("name", FAMILIES)
def test_greedy_tokens_diverge_only_within_the_noise(name):
    family, model = FAMILIES[name], family_model(name, torch.bfloat16)
    single = copy.deepcopy(model).float()
    for layout in family.layouts:
        for path in family.paths:
            engine = paper_engine(model, byte_tokenizer(), layout=layout, attention=path)
            engine.load_schema(SCHEMA)
            assert torch.equal(engine.logits(PROMPT), engine.logits(PROMPT))
            asked = given(layout, PROMPT)
            for found, right in beside_oracle(engine, family, PROMPT, asked, STEPS):
                if int(found.argmax()) == int(right.argmax()):
                    continue
                top = right.topk(2).values
                noise = float((right - last_logits(single, family, asked)).abs().max())
                assert float(top[0] - top[1]) <= 4 * noise


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_states_have_the_dtype_of_the_model_and_positions_are_whole_numbers(dtype):
    seen = []
    model = tiny_llama(seed=5).to(dtype)
    engine = paper_engine(model, byte_tokenizer(), store=StoreConfig(codec="bf16", disk_bytes=0))
    model.register_forward_pre_hook(lambda *each: seen.append(each[2]["position_ids"]), with_kwargs=True)
    engine.load_schema(SCHEMA)
    state = engine._requests.assemble(engine._planned(PROMPT, True), 1)
    state.prefill()
    assert {each.dtype for each in (*state.computed().keys, *state.computed().values)} == {dtype}
    assert {each.dtype for each in seen} == {torch.int64}
    first, second = (engine.generate(PROMPT, max_new_tokens=8).token_ids for _ in range(2))
    assert first == second


def test_states_are_on_the_device_of_their_layer(monkeypatch):
    """`meta` stands for another device: what is there has no numbers, but it has a place."""
    adapter = ModelAdapter(tiny_llama())
    monkeypatch.setattr(adapter, "_devices", [torch.device("cpu"), torch.device("meta")])
    cache = adapter.new_cache(4)
    assert [layer.keys.device.type for layer in cache.layers] == ["cpu", "meta"]
    assert [layer.values.device.type for layer in cache.layers] == ["cpu", "meta"]


def test_the_dtype_of_states_is_that_of_the_computation_not_of_the_weights():
    """As in models whose weights are quantized: `model.dtype` then says nothing of keys and values."""
    model = tiny_llama(seed=6)
    model.__class__ = type("Quantized", (type(model),), {"dtype": property(lambda self: torch.int8)})
    adapter = ModelAdapter(model)
    assert adapter.dtype == torch.float32
    engine = paper_engine(model, byte_tokenizer())
    engine.load_schema(SCHEMA)
    assert torch.isfinite(engine.logits(PROMPT)).all()
