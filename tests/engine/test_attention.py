"""Which attention path an engine takes, and that a faulty one is not taken."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from promptcache.errors import RequestError, UnsupportedModelError
from promptcache.models import attention
from tests.engine.comparison import byte_engine
from tests.paper import paper_engine
from tests.tiny import byte_tokenizer, tiny_llama


def test_the_segments_path_is_the_default():
    assert byte_engine().attention == "segments"


def test_a_path_that_fails_the_check_is_not_taken(monkeypatch, caplog):
    def keys_too_late(query, tail_key, tail_value, segments, layer, scale):
        views = tuple(replace(view, keys=view.values) for view in segments.views)
        return attend(query, tail_key, tail_value, replace(segments, views=views), layer, scale)

    attend = attention.attend_parts
    monkeypatch.setattr(attention, "attend_parts", keys_too_late)
    engine = byte_engine(seed=77)
    assert engine.attention == "assembled"
    assert "fails the check" in caplog.text


def test_families_that_run_eager_keep_their_own():
    model = tiny_llama(attn_implementation="eager")
    assert paper_engine(model, byte_tokenizer()).attention == "assembled"
    assert model.config._attn_implementation == "eager"
    with pytest.raises(UnsupportedModelError, match="assembled"):
        paper_engine(model, byte_tokenizer(), attention="segments")


def test_unknown_names():
    for name in ("attention", "layout", "encoding"):
        with pytest.raises(RequestError, match="unknown"):
            paper_engine(tiny_llama(), byte_tokenizer(), **{name: "flash"})


def test_two_engines_on_one_model():
    model = tiny_llama()
    engines = [paper_engine(model, byte_tokenizer()) for _ in range(2)]
    assert [engine.attention for engine in engines] == ["segments"] * 2


def test_the_owners_own_calls_are_the_stock_models():
    stock = tiny_llama()
    engine = paper_engine(copy.deepcopy(stock), byte_tokenizer())
    ids = torch.randint(0, 256, (3, 9))
    mask = torch.ones_like(ids)
    mask[0, :4] = mask[2, :1] = 0
    with torch.no_grad():
        expected = stock(input_ids=ids, attention_mask=mask, position_ids=(mask.cumsum(1) - 1).clamp_min(0)).logits
        found = engine.model(input_ids=ids, attention_mask=mask, position_ids=(mask.cumsum(1) - 1).clamp_min(0)).logits
    assert torch.equal(found, expected)
    arguments = {"input_ids": ids, "attention_mask": mask, "max_new_tokens": 6, "do_sample": False, "pad_token_id": 0}
    assert torch.equal(engine.model.generate(**arguments), stock.generate(**arguments))


def test_learned_positions_cannot_be_moved():
    config = GPT2Config(vocab_size=260, n_embd=32, n_layer=2, n_head=2, n_positions=64, initializer_range=0.5)
    model = GPT2LMHeadModel(config).eval()
    with pytest.raises(UnsupportedModelError, match="layer 0") as caught:
        paper_engine(model, byte_tokenizer(), layout="compact")
    assert "reserved" in str(caught.value.hint)
    engine = paper_engine(model, byte_tokenizer())
    with pytest.raises(UnsupportedModelError):
        engine.load_schema('<schema name="s"><module name="a">a</module></schema>', layout="compact")
