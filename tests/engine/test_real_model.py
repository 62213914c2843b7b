"""The default model: reuse against the oracle, against the stock model, and in bfloat16."""

from __future__ import annotations

import copy

import pytest
import torch

from promptcache import Prompt, PromptCache, Schema
from promptcache.models.loading import load_model
from tests.engine.comparison import distance
from tests.engine.test_counts import HookCount
from tests.oracle import Token, full_prefill_logits, next_token_logits, tokens
from tests.paper import paper_engine

pytestmark = pytest.mark.model

SCHEMA = Schema.from_modules(
    {
        "opening": "The museum is open from nine to five. It is closed on Mondays.",
        "shop": "The shop sells postcards, books and small copies of the statues.",
        "tickets": "A ticket costs twelve euros. Children under six pay nothing.",
    },
    name="museum",
    intro="Answer from these notes.",
    role="user",
)
GAP = Prompt(schema="museum", imports=["opening", "tickets"], text="When is the museum closed?")


@pytest.fixture(scope="module", params=["segments", "assembled"])
def engine(request, real_engine_model) -> PromptCache:
    engine = paper_engine(real_engine_model.model, real_engine_model.tokenizer, attention=request.param)
    engine.load_schema(SCHEMA)
    return engine


def test_two_modules_with_a_gap_equal_the_oracle(engine):
    plan = engine.plan(GAP)
    given: list[Token] = []
    for run in plan.runs:
        group = f"pass {run.segment.encoding_pass}" if run.kind == "reused" else "fresh"
        given += tokens(run.ids, run.start, group)
    assert {t.group for t in given} == {"pass 0", "pass 1", "pass 3", "fresh"}
    assert plan.position_ids != tuple(range(plan.num_tokens))
    assert distance(engine.logits(GAP), next_token_logits(engine.model, given)) < 1e-4


def test_no_reuse_equals_a_full_prefill_and_exact_is_exact(engine):
    plan = engine.plan(GAP)
    full = full_prefill_logits(engine.model, plan.token_ids, plan.position_ids)[-1]
    assert distance(engine.logits(GAP, reuse=False), full) < 1e-4
    assert distance(engine.logits(GAP), full) > 1e-2

    first = Prompt(schema="museum", text="What do you know?")
    plan = engine.plan(first)
    assert engine.generate(first, max_new_tokens=1).exact
    full = full_prefill_logits(engine.model, plan.token_ids, plan.position_ids)[-1]
    assert distance(engine.logits(first), full) < 1e-4


def test_it_answers(engine):
    with HookCount(engine) as hook:
        done = engine.generate(GAP, max_new_tokens=24)
    assert "Monday" in done.text and done.finish_reason == "stop"
    assert hook.tokens == done.usage.computed_tokens + done.usage.completion_tokens - 1
    assert done.usage.reused_tokens > 40


def test_ids_are_those_of_the_chat_template(engine):
    messages = [{"role": "user", "content": "Hello there"}, {"role": "assistant", "content": "Hi!"}]
    messages.append({"role": "user", "content": "What is <|im_end|>?"})
    ids = list(engine._requests.plan(Prompt(messages=messages), None).token_ids)
    end = engine.tokenizer.convert_tokens_to_ids("<|im_end|>")
    assert ids.count(end) == 4  # the default system turn and the three turns: what a user typed is text
    stock = engine.tokenizer.apply_chat_template(messages[:2], tokenize=False)
    joined = engine._requests.plan(Prompt(messages=messages[:2]), None).token_ids
    assert engine.tokenizer.decode(joined) == stock


def test_bfloat16_agrees_with_its_own_full_prefill():
    loaded = load_model(dtype="bfloat16")
    engine = paper_engine(loaded.model, loaded.tokenizer)
    assert engine.attention == "segments"
    prefix = engine.prefix("The capital of France is Paris. The capital of Italy is")
    first, second = prefix.logits(" Rome. The capital of Spain is"), prefix.logits(" Rome. The capital of Spain is")
    assert torch.equal(first, second)
    full = prefix.logits(" Rome. The capital of Spain is", reuse=False)
    assert int(first.argmax()) == int(full.argmax())
    assert distance(first, full) < 0.5  # one unit in the last place of bfloat16 is 0.125 at these logits


def test_bfloat16_diverges_from_the_oracle_only_within_its_noise():
    loaded = load_model(dtype="bfloat16")
    single = copy.deepcopy(loaded.model).float()
    engine = paper_engine(loaded.model, loaded.tokenizer)
    engine.load_schema(SCHEMA)
    given: list[Token] = []
    for run in engine.plan(GAP).runs:
        given += tokens(run.ids, run.start, f"pass {run.segment.encoding_pass}" if run.kind == "reused" else "fresh")
    for found in engine.generate(GAP, max_new_tokens=12).token_ids:
        right = next_token_logits(engine.model, given)
        if found != int(right.argmax()):
            top, noise = right.topk(2).values, distance(right, next_token_logits(single, given))
            assert float(top[0] - top[1]) <= 4 * noise
            break
        given.append(Token(found, given[-1].position + 1))
