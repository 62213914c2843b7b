"""Prepacked linear layers: the same numbers, and the caller's model stays as it was."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from promptcache import PromptCache
from promptcache.errors import RequestError
from promptcache.models.prepacked import _MOST_ROWS, PrepackedLinear, prepacked
from tests.engine.comparison import agrees
from tests.oracle import tokens
from tests.tiny import byte_tokenizer, tiny_llama


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("rows", [1, 7, _MOST_ROWS, _MOST_ROWS + 1])
def test_a_layer_gives_what_the_stock_layer_gives(rows: int, bias: bool):
    stock = nn.Linear(24, 40, bias=bias)
    states = torch.randn(1, rows, 24)
    with torch.no_grad():
        assert torch.allclose(PrepackedLinear(stock)(states), stock(states), atol=1e-5)


def test_the_callers_model_stays_and_its_weights_are_shared():
    model = tiny_llama()
    before = [(name, type(module)) for name, module in model.named_modules()]
    made = prepacked(model)
    assert [(name, type(module)) for name, module in model.named_modules()] == before
    assert not any(type(module) is nn.Linear for module in made.modules())
    ours = dict(made.named_parameters())
    assert all(ours[name] is parameter for name, parameter in model.named_parameters())
    assert made.get_input_embeddings() is model.get_input_embeddings()


def test_reuse_equals_the_oracle():
    engine = PromptCache(tiny_llama(), byte_tokenizer(), layout="reserved", prepack=True)
    schema = '<schema name="s"><module name="a">abcde</module><module name="b">xyz</module></schema>'
    given = [*tokens(b"abcde", 0, "a"), *tokens(b"xyz", 5, "b"), *tokens(b"why?", 8)]
    agrees(engine, schema, '<prompt schema="s"><a/><b/>why?</prompt>', given)


def test_states_are_those_of_the_same_model():
    model = tiny_llama()
    plain, fast = PromptCache(model, byte_tokenizer()), PromptCache(model, byte_tokenizer(), prepack=True)
    assert plain._context == fast._context


def test_other_dtypes_are_refused():
    with pytest.raises(RequestError, match="prepack is for float32"):
        PromptCache(copy.deepcopy(tiny_llama()).bfloat16(), byte_tokenizer(), prepack=True)
