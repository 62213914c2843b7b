"""Linear layers for few rows: the same numbers, and the caller's model stays as it was."""

from __future__ import annotations

import copy
import threading

import pytest
import torch
from torch import nn

from promptcache.errors import RequestError
from promptcache.models.linear import _PACKED_ROWS, _SPLIT_ROWS, PackedLinear, SplitLinear, _pieces, for_few_rows
from tests.engine.comparison import agrees
from tests.oracle import tokens
from tests.paper import paper_engine
from tests.tiny import byte_tokenizer, tiny_llama

_SCHEMA = '<schema name="s"><module name="a">abcde</module><module name="b">xyz</module></schema>'
_PROMPT = '<prompt schema="s"><a/><b/>why?</prompt>'


@pytest.mark.parametrize("made", [SplitLinear, PackedLinear])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("out", [1, 40, 42, 43])
@pytest.mark.parametrize("rows", [0, 1, 7, _PACKED_ROWS, _PACKED_ROWS + 1, _SPLIT_ROWS, _SPLIT_ROWS + 1])
@pytest.mark.parametrize("threads", [1, 2, 3], indirect=True)
@pytest.mark.usefixtures("threads")
def test_a_layer_gives_what_the_stock_layer_gives(rows: int, out: int, bias: bool, made: type[SplitLinear]):
    stock = nn.Linear(24, out, bias=bias)
    with torch.no_grad():
        for states in (torch.randn(1, rows, 24), torch.randn(rows, 24), torch.randn(1, 24, rows).transpose(1, 2)):
            found, expected = made(stock)(states), stock(states)
            assert found.shape == expected.shape and torch.allclose(found, expected, atol=1e-5)


def test_pieces_have_the_same_size():
    assert _pieces(576, 1) == 1
    assert _pieces(576, 2) == 4 and _pieces(42, 2) == 6
    assert _pieces(43, 2) == 1
    assert _pieces(576, 16) == 32


@pytest.mark.parametrize("prepack", [False, True])
def test_the_callers_model_stays_and_its_weights_are_shared(prepack: bool):
    model = tiny_llama()
    before = [(name, type(module)) for name, module in model.named_modules()]
    made = for_few_rows(model, prepack=prepack)
    assert [(name, type(module)) for name, module in model.named_modules()] == before
    assert not any(type(module) is nn.Linear for module in made.modules())
    ours = dict(made.named_parameters())
    assert all(ours[name] is parameter for name, parameter in model.named_parameters())
    assert made.get_input_embeddings() is model.get_input_embeddings()


@pytest.mark.parametrize("prepack", [False, True])
@pytest.mark.parametrize("threads", [2], indirect=True)
@pytest.mark.usefixtures("threads")
def test_reuse_equals_the_oracle(prepack: bool):
    engine = paper_engine(tiny_llama(), byte_tokenizer(), layout="reserved", prepack=prepack)
    given = [*tokens(b"abcde", 0, "a"), *tokens(b"xyz", 5, "b"), *tokens(b"why?", 8)]
    agrees(engine, _SCHEMA, _PROMPT, given)


def test_states_are_those_of_the_same_model():
    model = tiny_llama()
    plain, fast = paper_engine(model, byte_tokenizer()), paper_engine(model, byte_tokenizer(), prepack=True)
    assert plain._context == fast._context


@pytest.mark.parametrize("threads", [2], indirect=True)
@pytest.mark.usefixtures("threads")
def test_hooks_of_the_callers_model_see_our_passes():
    model = copy.deepcopy(tiny_llama())
    engine = paper_engine(model, byte_tokenizer())
    engine.load_schema(_SCHEMA)
    seen: list[str] = []
    layer = model.model.layers[0]
    handles = [
        watched.register_forward_hook(lambda *_, name=name: seen.append(name))
        for name, watched in (("layer", layer), ("linear", layer.mlp.up_proj), ("norm", layer.input_layernorm))
    ]
    engine.generate(_PROMPT, max_new_tokens=1)
    assert seen == ["norm", "linear", "layer"]
    for handle in handles:
        handle.remove()
    engine.generate(_PROMPT, max_new_tokens=1)
    assert len(seen) == 3


@pytest.mark.parametrize("threads", [2], indirect=True)
@pytest.mark.usefixtures("threads")
def test_weights_that_change_in_place_are_those_of_our_passes():
    model = copy.deepcopy(tiny_llama())
    made = for_few_rows(model)
    with torch.no_grad():
        model.model.layers[0].mlp.up_proj.weight.mul_(2)
        ids = torch.tensor([[1, 2, 3]])
        assert torch.allclose(made(ids).logits, model(ids).logits, atol=1e-5)


def test_a_model_put_into_training_mode_later_is_refused():
    model = copy.deepcopy(tiny_llama())
    engine = paper_engine(model, byte_tokenizer())
    model.train()
    with pytest.raises(RequestError, match="training mode"):
        engine.load_schema(_SCHEMA)


def test_a_layer_with_something_added_stays():
    model = copy.deepcopy(tiny_llama())
    changed, turned = model.model.layers[0].mlp.up_proj, model.model.layers[0].mlp.gate_proj
    changed.forward = lambda states: nn.Linear.forward(changed, states) * 2
    turned.weight = nn.Parameter(turned.weight.detach().t().contiguous().t())
    mlp = for_few_rows(model).model.layers[0].mlp
    assert mlp.up_proj is changed and mlp.gate_proj is turned and isinstance(mlp.down_proj, SplitLinear)


def test_a_model_that_cannot_be_copied_runs_as_it_is():
    model = copy.deepcopy(tiny_llama())
    model.lock = threading.Lock()
    assert for_few_rows(model) is model
    with pytest.raises(RequestError, match="cannot be copied"):
        for_few_rows(model, prepack=True)


def test_other_dtypes_are_left_alone_and_refused_for_prepack():
    model = copy.deepcopy(tiny_llama()).bfloat16()
    assert for_few_rows(model) is model
    with pytest.raises(RequestError, match="prepack is for float32"):
        paper_engine(model, byte_tokenizer(), prepack=True)
