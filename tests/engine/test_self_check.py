"""The check at load: right models pass it in every layout and dtype, a broken one fails it with the layer named."""

from __future__ import annotations

import functools
import logging
from typing import Any

import pytest
import torch

from promptcache.errors import RequestError, UnsupportedModelError
from promptcache.kv.rotation import Rotary
from promptcache.models import adapter as adapter_module
from promptcache.models.adapter import ModelAdapter
from promptcache.runtime.checks import self_check
from promptcache.runtime.checks.self_check import fault_of
from tests.engine.test_families import CASES
from tests.families import FAMILIES, family_model
from tests.paper import paper_engine
from tests.tiny import byte_tokenizer, tiny_llama


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize(("name", "layout"), CASES, ids=lambda value: value)
def test_right_models_pass(name, layout, dtype):
    adapter = ModelAdapter(family_model(name, dtype))
    assert adapter.dtype == dtype
    for path in FAMILIES[name].paths:
        assert self_check._look(adapter, path, layout) is None


def late_keys(model: Any, layer: int) -> Any:
    """The model with the keys of one layer rotated by one position too many, in passes that do not begin at 0."""
    attention = model.model.layers[layer].self_attn
    forward = attention.forward

    def broken(hidden_states: Any, position_embeddings: Any, **more: Any) -> Any:
        cache, first = more["cache"], int(more["position_ids"][0, 0])
        if first:
            cache.update = functools.partial(late, cache)
        try:
            return forward(hidden_states, position_embeddings=position_embeddings, **more)
        finally:
            cache.__dict__.pop("update", None)

    def late(cache: Any, key: torch.Tensor, value: torch.Tensor, at: int, *more: Any, **named: Any) -> Any:
        turn = Rotary(model.model.rotary_emb.inv_freq.double())
        return type(cache).update(cache, turn.turned(key, torch.tensor([1]))[0], value, at, *more, **named)

    attention.forward = broken
    return model


@pytest.mark.parametrize("path", ["segments", "assembled"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("layer", [0, 1])
def test_a_model_with_keys_rotated_too_far_is_refused(layer, dtype, path, caplog):
    model = late_keys(tiny_llama(seed=100 + layer).to(dtype), layer)
    with pytest.raises(UnsupportedModelError, match=f"from layer {layer} on the keys of") as caught:
        paper_engine(model, byte_tokenizer(), attention=path)
    assert "self_check=False" in (caught.value.hint or "")
    paper_engine(model, byte_tokenizer(), attention=path, self_check=False)
    with caplog.at_level(logging.WARNING), pytest.raises(UnsupportedModelError, match="on the assembled path"):
        paper_engine(model, byte_tokenizer())
    assert f"from layer {layer} on" in caplog.text


def test_a_wrong_rotation_is_refused_in_the_compact_layout_only(monkeypatch):
    def too_fast(*args: Any) -> Any:
        return tuple(Rotary(rotary.frequencies * 1.01) for rotary in find(*args))

    find = adapter_module.find_rotations
    monkeypatch.setattr(adapter_module, "find_rotations", too_fast)
    engine = paper_engine(tiny_llama(seed=110), byte_tokenizer())
    with pytest.raises(UnsupportedModelError, match="layout 'compact' on the segments path: from layer 0 on the keys"):
        engine.load_schema('<schema name="s">text</schema>', layout="compact")
    for attention in ("segments", "assembled"):
        with pytest.raises(UnsupportedModelError, match="layout 'compact'"):
            paper_engine(tiny_llama(seed=110), byte_tokenizer(), layout="compact", attention=attention)


def test_the_result_is_remembered(monkeypatch):
    model = tiny_llama(seed=120)
    paper_engine(model, byte_tokenizer())
    monkeypatch.setattr(self_check, "_look", lambda *_: "a fault")
    paper_engine(model, byte_tokenizer())
    paper_engine(tiny_llama(seed=120), byte_tokenizer())
    assert fault_of(ModelAdapter(tiny_llama(seed=121)), "segments", "reserved") == "a fault"
    with pytest.raises(UnsupportedModelError, match="a fault"):
        paper_engine(tiny_llama(seed=121), byte_tokenizer())
    assert paper_engine(tiny_llama(seed=121), byte_tokenizer(), self_check=False).attention == "segments"


def test_mps_is_taken_by_its_check_alone(monkeypatch):
    monkeypatch.setattr(ModelAdapter, "devices", (torch.device("mps"),))
    with pytest.raises(RequestError, match="self-check"):
        paper_engine(tiny_llama(), byte_tokenizer(), self_check=False)
