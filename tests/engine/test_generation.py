"""Sampling, stopping and streaming."""

from __future__ import annotations

import pytest
import torch

from promptcache import PromptCache
from promptcache.errors import PromptCacheError, RequestError
from tests.engine.comparison import byte_engine
from tests.paper import paper_engine
from tests.tiny import IM_END, byte_tokenizer, tiny_llama

SCHEMA = '<schema name="s"><module name="a">some module</module></schema>'
PROMPT = '<prompt schema="s"><a/>go</prompt>'


@pytest.fixture(scope="module")
def engine() -> PromptCache:
    engine = byte_engine()
    engine.load_schema(SCHEMA)
    return engine


def test_greedy_equals_a_loop_over_the_stock_model(engine):
    ids = list(b"some modulego")
    for _ in range(12):
        with torch.no_grad():
            ids.append(int(engine.model(torch.tensor([ids])).logits[0, -1].argmax()))
    assert list(engine.generate(PROMPT, max_new_tokens=12).token_ids) == ids[13:]


def test_a_seed_makes_sampling_repeatable(engine):
    def draw(seed):
        return engine.generate(PROMPT, max_new_tokens=12, temperature=1.5, top_p=0.9, top_k=50, seed=seed).token_ids

    assert draw(1) == draw(1)
    assert len({draw(seed) for seed in range(5)}) > 1


def test_top_k_of_one_is_greedy(engine):
    greedy = engine.generate(PROMPT, max_new_tokens=8).token_ids
    assert engine.generate(PROMPT, max_new_tokens=8, temperature=2.0, top_k=1).token_ids == greedy


def test_the_repetition_penalty_counts_reused_tokens(engine):
    logits = engine.logits(PROMPT)
    prompt_ids = set(engine.plan(PROMPT).token_ids)
    best = int(torch.tensor([v if i not in prompt_ids else -1e9 for i, v in enumerate(logits.tolist())]).argmax())
    done = engine.generate(PROMPT, max_new_tokens=1, repetition_penalty=1e6)
    # Every token of the prompt, the module's too, is pushed to zero from above or far below: none is chosen while
    # another has a positive score.
    assert done.token_ids == (best,)


def test_stream_pieces_join_to_the_text(engine):
    done = engine.generate(PROMPT, max_new_tokens=24)
    stream = engine.stream(PROMPT, max_new_tokens=24)
    pieces = list(stream)
    assert all(pieces) and "".join(pieces) == done.text
    assert stream.completion.token_ids == done.token_ids
    assert stream.completion.finish_reason == "length"


def test_a_stop_string_ends_the_reply_and_is_not_shown(engine):
    text = engine.generate(PROMPT, max_new_tokens=30).text
    stop = text[8:10]
    at = text.index(stop)
    done = engine.generate(PROMPT, max_new_tokens=30, stop=(stop, "never there"))
    assert done.text == text[:at] and done.finish_reason == "stop"
    assert "".join(engine.stream(PROMPT, max_new_tokens=30, stop=stop)) == text[:at]
    assert engine.generate(PROMPT, max_new_tokens=30, stop="never there").text == text


def test_an_unfinished_stream_has_no_completion(engine):
    stream = engine.stream(PROMPT, max_new_tokens=3)
    with pytest.raises(RequestError, match="not finished"):
        _ = stream.completion


def test_end_of_sequence_from_config_and_template():
    # The byte tokenizer's template closes a reply with <|im_end|>; the model's config names another token as well.
    model = tiny_llama()
    first = byte_engine()
    first.load_schema(SCHEMA)
    ids = first.generate(PROMPT, max_new_tokens=6).token_ids
    model.generation_config.eos_token_id = ids[3]
    engine = paper_engine(model, byte_tokenizer())
    engine.load_schema(SCHEMA)
    done = engine.generate(PROMPT, max_new_tokens=6)
    assert done.finish_reason == "stop" and done.token_ids == ids[: ids.index(ids[3]) + 1]
    assert IM_END in engine._tokenizer.eos_ids


def test_generation_ends_at_the_last_position():
    engine = byte_engine(max_position_embeddings=16)
    engine.load_schema(SCHEMA)
    done = engine.generate(PROMPT, max_new_tokens=50)  # 13 tokens of prompt: positions 13, 14, 15 and one more token
    assert done.usage.completion_tokens == 4 and done.finish_reason == "length"
    with pytest.raises(PromptCacheError, match="16"):
        engine.generate('<prompt schema="s"><a/>too much text</prompt>')


@pytest.mark.parametrize(
    "arguments",
    [
        {"max_new_tokens": 0},
        {"max_new_tokens": -1},
        {"max_new_tokens": 2.5},
        {"temperature": -0.1},
        {"temperature": float("nan")},
        {"top_p": 0},
        {"top_p": 1.1},
        {"top_k": -1},
        {"repetition_penalty": 0},
        {"stop": ("",)},
        {"stop": (3,)},
    ],
)
def test_arguments_out_of_range(engine, arguments):
    with pytest.raises(RequestError):
        engine.generate(PROMPT, **arguments)


def test_an_empty_prompt(engine):
    engine.load_schema('<schema name="empty"><module name="m"/></schema>')
    for prompt in ("", '<prompt schema="empty"/>', '<prompt schema="empty"><m/></prompt>'):
        with pytest.raises(RequestError, match="no tokens"):
            engine.generate(prompt)


def test_a_schema_that_is_not_loaded(engine):
    with pytest.raises(PromptCacheError, match="no schema named 'other'") as caught:
        engine.generate('<prompt schema="other"><a/></prompt>')
    assert "s" in caught.value.hint and caught.value.line == 1


def test_a_name_in_use(engine):
    with pytest.raises(RequestError, match="already"):
        engine.load_schema('<schema name="s"><module name="a">other text</module></schema>')
    other = engine.load_schema('<schema name="s"><module name="a">some text!!</module></schema>', replace=True)
    assert engine.schemas["s"] is other
    engine.load_schema(SCHEMA, replace=True)


def test_training_mode_is_refused_and_training_still_works(engine):
    engine.model.train()
    with pytest.raises(RequestError, match="training mode"):
        engine.generate(PROMPT)
    loss = engine.model(torch.tensor([[1, 2, 3]]), labels=torch.tensor([[1, 2, 3]])).loss
    loss.backward()
    assert engine.model.get_input_embeddings().weight.grad is not None
    engine.model.zero_grad()
    engine.model.eval()
    assert engine.generate(PROMPT, max_new_tokens=1).token_ids


def test_the_model_behaves_as_stock_for_its_owner(engine):
    ids = torch.tensor([[5, 6, 7, 8], [9, 9, 5, 6]])
    mask = torch.tensor([[1, 1, 1, 1], [0, 0, 1, 1]])
    with torch.no_grad():
        assert torch.equal(engine.model(ids, attention_mask=mask).logits, tiny_llama()(ids, attention_mask=mask).logits)
