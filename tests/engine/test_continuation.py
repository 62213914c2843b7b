"""Logits along a given continuation: those of decoding it token by token, and those of the oracle."""

from __future__ import annotations

import pytest
import torch

from promptcache import Prompt, PromptCache
from promptcache.errors import LayoutError, RequestError
from tests.engine.comparison import byte_engine, distance
from tests.engine.test_counts import HookCount
from tests.oracle import full_prefill_logits, oracle_logits, tokens
from tests.paper import paper_engine
from tests.tiny import byte_tokenizer, tiny_llama

SCHEMA = '<schema name="s">AB<module name="a">cde</module><module name="gap">1234</module></schema>'
PROMPT = Prompt(schema="s", imports=["a"], text="?!")
ANSWER = b"yes"


@pytest.fixture(scope="module", params=["segments", "assembled"])
def engine(request) -> PromptCache:
    engine = paper_engine(tiny_llama(), byte_tokenizer(), attention=request.param)
    engine.load_schema(SCHEMA)
    return engine


def test_against_the_oracle_with_positions_by_hand(engine):
    given = [
        *tokens(b"AB", 0, "anonymous"),
        *tokens(b"cde", 2, "a"),
        *tokens(b"?!", 5),
        *tokens(ANSWER[:-1], 7),
    ]
    expected = oracle_logits(engine.model, given)[-3:]
    found = engine.continuation_logits(PROMPT, ANSWER)
    assert found.shape == expected.shape and found.dtype == torch.float32
    assert distance(found, expected) < 1e-4
    full = full_prefill_logits(engine.model, b"ABcde?!" + ANSWER[:-1], range(9))[-3:]
    assert distance(engine.continuation_logits(PROMPT, ANSWER, reuse=False), full) < 1e-4
    assert distance(found, full) > 1e-2


@pytest.mark.parametrize("prompt", [PROMPT, "plain", Prompt(schema="s"), Prompt(schema="s", imports=["a", "gap"])])
def test_it_equals_decoding_token_by_token(engine, prompt):
    state = engine._requests.assemble(engine._planned(prompt, True), room=8)
    rows = [state.prefill()[-1], *(state.step(token) for token in ANSWER[:-1])]
    found = engine.continuation_logits(prompt, ANSWER)
    assert distance(found, torch.stack(rows)) < 1e-4
    assert distance(found[0], engine.logits(prompt)) < 1e-4
    assert distance(engine.continuation_logits(prompt, list(ANSWER[:1])), found[:1]) < 1e-4


def test_only_fresh_tokens_and_the_continuation_are_computed(engine):
    with HookCount(engine) as hook:
        engine.continuation_logits(PROMPT, ANSWER)
    assert hook.tokens == 2 + 2
    with HookCount(engine) as hook:
        engine.continuation_logits(PROMPT, ANSWER, reuse=False)
    assert hook.tokens == 7 + 2


def test_it_writes_nothing_to_the_store(engine):
    before = {key: [t.clone() for t in (*b.keys, *b.values)] for key, b in engine.store.held().items()}
    engine.continuation_logits(PROMPT, ANSWER * 5)
    assert engine.plan(PROMPT).num_tokens == 7 and len(engine.store) == len(before)
    for key, tensors in before.items():
        block = engine.store.held()[key]
        assert all(torch.equal(a, b) for a, b in zip(tensors, (*block.keys, *block.values), strict=True))


@pytest.mark.parametrize("ids", [[-1], [5, 260]])
def test_unknown_ids_are_named(engine, ids):
    with pytest.raises(RequestError, match=f"no token {ids[-1]}") as caught:
        engine.continuation_logits(PROMPT, ids)
    assert "0 to 259" in str(caught.value)


def test_no_tokens_and_no_room(engine):
    with pytest.raises(RequestError, match="no tokens"):
        engine.continuation_logits(PROMPT, [])
    small = byte_engine(max_position_embeddings=8)
    assert small.continuation_logits("12345", b"abcd").shape == (4, 260)
    with pytest.raises(LayoutError, match="position 8"):
        small.continuation_logits("12345", b"abcde")
