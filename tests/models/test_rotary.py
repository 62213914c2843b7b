"""Stored states moved to another place, against states computed there."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
import torch

from promptcache import Prompt, Schema
from promptcache.errors import UnsupportedModelError
from promptcache.kv.block import KVBlock
from promptcache.kv.rotation import moved
from promptcache.models.adapter import ModelAdapter
from promptcache.runtime.states import segmented
from tests.engine.comparison import distance, shifted_by
from tests.oracle import next_token_logits, tokens
from tests.paper import paper_engine
from tests.tiny import tiny_llama

SHIFTS = (1, 100, 1000, 4000)


def states(adapter: ModelAdapter, ids: list[int], start: int) -> KVBlock:
    cache = adapter.new_cache(len(ids))
    adapter.forward(ids, range(start, start + len(ids)), cache, None)
    return cache.view(0, len(ids)).copy()


def exactly_moved(adapter: ModelAdapter, block: KVBlock, shift: int) -> list[torch.Tensor]:
    """The keys turned by complex numbers in float64: pairs lie half the head apart in these models."""
    (inverse,) = {b for n, b in adapter.model.named_buffers() if n.endswith("rotary_emb.inv_freq")}
    turn = torch.polar(torch.ones(len(inverse), dtype=torch.float64), inverse.double() * shift)
    keys = []
    for key in block.keys:
        first, second = key.double().chunk(2, -1)
        turned = torch.complex(first, second) * turn
        keys.append(torch.cat((turned.real, turned.imag), -1))
    return keys


def check_moves(adapter: ModelAdapter, ids: list[int], shift: int, in_place: float) -> None:
    stored = states(adapter, ids, 0)
    before = stored.copy()
    there, used = states(adapter, ids, shift), moved(stored, shift, adapter.rotations)
    for layer, exact in enumerate(exactly_moved(adapter, stored, shift)):
        largest = float(stored.keys[layer].abs().max())
        assert (used.keys[layer] - exact).abs().max() <= 1e-5 * largest
        # In the first layer nothing but the angle differs; behind it the model's own rounding at other positions does.
        bound = 1e-4 if layer == 0 else in_place
        assert (used.keys[layer] - there.keys[layer]).abs().max() <= bound * largest
        assert torch.equal(used.values[layer], stored.values[layer])
    assert all(map(torch.equal, (*stored.keys, *stored.values), (*before.keys, *before.values)))


@pytest.mark.parametrize("shift", SHIFTS)
def test_moved_keys_are_those_of_the_other_place(shift: int):
    adapter = ModelAdapter(tiny_llama(max_position_embeddings=8192))
    check_moves(adapter, Random(0).choices(range(256), k=60), shift, in_place=2e-3)


@pytest.mark.model
@pytest.mark.parametrize("shift", SHIFTS)
def test_moved_keys_of_the_default_model(real_engine_model: Any, shift: int):
    ids = real_engine_model.tokenizer("A ticket costs twelve euros. Children under six pay nothing.").input_ids
    check_moves(ModelAdapter(real_engine_model.model), ids, shift, in_place=2e-3)


@pytest.mark.model
@pytest.mark.parametrize(
    ("attention", "shift"),
    [
        ("segments", 1),
        ("segments", 100),
        ("segments", 1000),
        ("assembled", 1000),
        pytest.param("segments", 4000, marks=pytest.mark.slow),
    ],
)
def test_the_default_model_answers_alike_with_a_moved_module(real_engine_model: Any, attention: str, shift: int):
    model, tokenizer = real_engine_model.model, real_engine_model.tokenizer
    engine = paper_engine(model, tokenizer, layout="compact", attention=attention)
    filler = tokenizer.decode([tokenizer(" word").input_ids[0]] * shift)
    note = "\nA ticket costs twelve euros. Children under six pay nothing.\n" * 4
    engine.load_schema(Schema.from_modules({"filler": filler, "note": note}, name="s", separator=""))
    prompt = Prompt(schema="s", imports=["filler", "note"], text="Question: what does a ticket cost?\nAnswer:")
    plan = engine.plan(prompt)
    assert [run.shift for run in plan.runs if run.kind == "reused"] == [0, shift]
    given = [t for n, run in enumerate(plan.runs) for t in tokens(run.ids, run.start, str(n))]
    given = [t if t.group != str(len(plan.runs) - 1) else tokens([t.id], t.position)[0] for t in given]
    limit = 1e-4 + 2 * shifted_by(model, given, shift)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segmented, "GATHERED_TOKENS", 0)
        assert distance(engine.logits(prompt), next_token_logits(model, given)) <= limit


def test_a_layer_that_turns_otherwise_is_named():
    model = tiny_llama()
    last = model.model.layers[1].self_attn
    forward = last.forward

    def wrong(hidden_states, position_embeddings, **more):
        cos, sin = position_embeddings
        return forward(hidden_states, position_embeddings=(sin, cos), **more)

    last.forward = wrong
    with pytest.raises(UnsupportedModelError, match="keys of layer 1 do not turn"):
        _ = ModelAdapter(model).rotations
