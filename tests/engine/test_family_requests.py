"""What else a request can be, on families that take a way of their own: windows, ALiBi, learned positions, eager."""

from __future__ import annotations

import pytest
import torch

from promptcache import Prompt, PromptCache
from tests.engine.comparison import TOLERANCE, distance
from tests.engine.test_families import expected
from tests.families import FAMILIES, family_model
from tests.family_oracle import PROMPT, SCHEMA
from tests.oracle import Token
from tests.paper import paper_engine
from tests.tiny import byte_tokenizer

NAMES = ("mistral, window", "gemma3", "gemma2", "falcon", "falcon, alibi", "mpt", "bloom", "gpt2", "gptj")
CASES = [(name, path) for name in NAMES for path in FAMILIES[name].paths]


@pytest.fixture(params=CASES, ids=lambda case: "-".join(case))
def case(request) -> tuple[str, PromptCache]:
    name, path = request.param
    layout = FAMILIES[name].layouts[0]
    engine = paper_engine(family_model(name), byte_tokenizer(), layout=layout, attention=path)
    engine.load_schema(SCHEMA)
    return name, engine


def fresh(engine: PromptCache) -> list[Token]:
    """The prompt's tokens, all computed."""
    plan = engine.plan(PROMPT)
    return [Token(i, p) for i, p in zip(plan.token_ids, plan.position_ids, strict=True)]


def test_without_reuse_and_with_all_of_it_repaired_it_is_a_full_prefill(case):
    name, engine = case
    logits, limit = expected(name, fresh(engine))
    assert distance(engine.logits(PROMPT, reuse=False), logits) < limit
    assert distance(engine.logits(PROMPT, repair="full"), logits) < limit
    assert distance(engine.logits(PROMPT), logits) > 100 * TOLERANCE


def test_repair_in_part_runs_and_changes_the_answer(case):
    _, engine = case
    without = engine.logits(PROMPT)
    for repair in ("link:3", "query:0.3"):
        plan = engine.generate(PROMPT, max_new_tokens=1, repair=repair)
        assert plan.usage.repaired_tokens > 3
        assert distance(engine.logits(PROMPT, repair=repair), without) > TOLERANCE
    assert engine.verify(PROMPT, max_new_tokens=2).exact is False


def test_continuations_of_a_prefix_are_scored_as_they_are_computed(case):
    name, engine = case
    prefix = engine.prefix("A text that stands before, longer than the window is.")
    given_texts = ["yes", "yes, it is", "no", "never"]
    scores = prefix.score(" Is it so? ", given_texts)
    for text, score in zip(given_texts, scores, strict=True):
        asked = [Token(i, p) for p, i in enumerate(b"A text that stands before, longer than the window is. Is it so? ")]
        total, slack = 0.0, TOLERANCE
        for byte in text.encode():
            logits, limit = expected(name, asked)
            total += float(logits.log_softmax(-1)[byte])
            slack += 2 * limit
            asked.append(Token(byte, len(asked)))
        assert abs(total - score.logprob) < slack


def test_the_same_request_twice_is_the_same_to_the_bit_and_stored_states_are_untouched(case):
    _, engine = case
    first = engine.logits(PROMPT)
    engine.generate(PROMPT, max_new_tokens=4)
    assert torch.equal(first, engine.logits(PROMPT))


def test_a_chat_goes_on_where_it_was(case):
    name, engine = case
    messages = [{"role": "user", "content": "A first question that is rather long"}]
    reply = engine.chat(messages, max_new_tokens=3)
    messages += [{"role": "assistant", "content": reply.text}, {"role": "user", "content": "And?"}]
    again = engine.chat(messages, max_new_tokens=1)
    assert again.usage.reused_tokens > 30
    plan = engine._requests.plan(Prompt(messages=messages), None)
    logits, _ = expected(name, [Token(i, p) for p, i in enumerate(plan.token_ids)])
    assert again.token_ids[0] == int(logits.argmax())


def test_prepare_gives_what_generate_needs(case):
    name, engine = case
    if any(FAMILIES[name].windows):
        engine = paper_engine(engine.model, engine.tokenizer, layout="compact", attention=engine.attention)
        engine.load_schema(SCHEMA)
    arguments = engine.prepare(PROMPT)
    ids = engine.model.generate(**arguments, max_new_tokens=4, do_sample=False)[0, arguments["input_ids"].shape[1] :]
    assert ids.tolist() == list(engine.generate(PROMPT, max_new_tokens=4).token_ids)
