"""Reuse equals the oracle for other shapes of the model, and goes on doing so while tokens are generated."""

from __future__ import annotations

import pytest
import torch

from tests.engine.comparison import agrees, byte_engine
from tests.oracle import Token, next_token_logits, tokens
from tests.tiny import UNK

SCHEMA = (
    '<schema name="s">Be brief.<module name="plan">Stay <parameter name="days" length="6" scaffold="two"/> days. '
    '<module name="deep">nested</module>So.</module>'
    '<union><module name="x">short</module><module name="y">a longer one</module></union>'
    '<module name="end">The end</module></schema>'
)
PROMPT = '<prompt schema="s"><plan days="3"/><x/><end/>Why?</prompt>'
GIVEN = [
    *tokens(b"Be brief.", 0, "text"),
    *tokens(b"Stay", 9, "plan"),
    *tokens([*b" two", UNK, UNK], 13, "plan", ghost=True),
    *tokens(b" 3", 13),
    *tokens(b" days. ", 19, "plan"),
    *tokens(b"So.", 32, "plan"),
    *tokens(b"short", 35, "x"),
    *tokens(b"The end", 47, "end"),
    *tokens(b"Why?", 54),
]
EVERY_SHAPE = [
    {"num_key_value_heads": 1},
    {"num_key_value_heads": 4},
    {"head_dim": 32},
    {"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 24},
    {"num_hidden_layers": 5},
    {"attn_implementation": "eager"},
    {"attention_bias": True, "mlp_bias": True},
    {"tie_word_embeddings": True},
    {"rope_parameters": {"rope_type": "default", "rope_theta": 100.0}},
    {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0}},
    {
        "rope_parameters": {
            "rope_type": "llama3",
            "rope_theta": 10000.0,
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        }
    },
    {"rope_parameters": {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0}},
]


@pytest.mark.parametrize("shape", EVERY_SHAPE, ids=lambda shape: "-".join(map(str, shape.values()))[:40])
def test_shapes(shape):
    agrees(byte_engine(**shape), SCHEMA, PROMPT, GIVEN)


@pytest.mark.parametrize("seed", range(3))
def test_generated_tokens_are_those_of_the_oracle(seed):
    engine = byte_engine(seed=seed)
    engine.load_schema(SCHEMA)
    given = list(GIVEN)
    expected = []
    for position in range(58, 66):
        logits = next_token_logits(engine.model, given)
        top = torch.topk(logits, 2).values
        assert top[0] - top[1] > 1e-3, "a tie would prove nothing: take another seed"
        expected.append(int(logits.argmax()))
        given.append(Token(expected[-1], position))
    done = engine.generate(PROMPT, max_new_tokens=8)
    assert list(done.token_ids) == expected
    assert done.finish_reason == "length"
