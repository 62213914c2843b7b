"""The stock side is a full prefill by transformers, at any positions, and leaves the engine's model as it was."""

from __future__ import annotations

from itertools import chain

import pytest
import torch

from eval.engine import end_ids
from eval.hook import TokenHook
from eval.stock_model import StockModel
from promptcache import PromptCache
from tests.oracle import full_prefill_logits
from tests.paper import paper_engine
from tests.tiny import IM_END, byte_tokenizer, tiny_llama

IDS = list(b"a prompt of some length")
ANSWER = list(b"yes")


@pytest.fixture(scope="module")
def engine() -> PromptCache:
    return paper_engine(tiny_llama(), byte_tokenizer())


@pytest.fixture
def stock(engine: PromptCache) -> StockModel:
    return StockModel(engine.model, [])


@pytest.mark.parametrize("positions", [None, [*range(9), *range(30, 30 + len(IDS) - 9)], range(5, 5 + len(IDS))])
def test_it_equals_one_pass_under_an_explicit_mask(engine, stock, positions) -> None:
    prefill = stock.prefill(IDS, positions)
    places = list(positions or range(len(IDS)))
    more = [places[-1] + 1, places[-1] + 2]
    expected = full_prefill_logits(engine.model, IDS + ANSWER[:-1], places + more)[-3:]
    found = stock.continuation_logits(prefill, ANSWER)
    assert (found - expected).abs().max() < 1e-4
    assert prefill.token == int(expected[0].argmax()) and prefill.ms > 0
    # A continuation leaves the prefill as it was.
    assert torch.equal(stock.continuation_logits(prefill, ANSWER), found)
    assert torch.equal(stock.continuation_logits(prefill, ANSWER[:1]), found[:1])


def test_a_gap_does_not_hide_what_stands_before_it(stock) -> None:
    positions = [*range(9), *range(30, 30 + len(IDS) - 9)]
    other = stock.prefill([200, *IDS[1:]], positions)
    assert (other.logits - stock.prefill(IDS, positions).logits).abs().max() > 1e-2


def test_only_positions_with_gaps_take_a_mask(engine, stock, monkeypatch) -> None:
    masks = []
    forward = type(engine.model).forward

    def spy(self, *args, **kwargs):
        masks.append(kwargs.get("attention_mask"))
        return forward(self, *args, **kwargs)

    monkeypatch.setattr(type(engine.model), "forward", spy)
    stock.prefill(IDS, range(len(IDS)))
    stock.prefill(IDS, range(1, len(IDS) + 1))
    assert masks[0] is None and masks[1].shape == (1, 1, len(IDS), len(IDS)) and masks[1].is_floating_point()


def test_the_reply_is_stock_generates(engine, stock) -> None:
    prefill = stock.prefill(IDS)
    stock.continuation_logits(prefill, ANSWER)
    with TokenHook(engine.model) as hook:
        reply = stock.reply(prefill, 6)
        hook.expect("reply", [1] * 5)
    expected = engine.model.generate(torch.tensor([IDS]), max_new_tokens=6, do_sample=False, pad_token_id=0)
    assert list(reply.token_ids) == expected[0, len(IDS) :].tolist()
    assert len(reply.later_ms) == 4 and all(ms > 0 for ms in reply.later_ms)
    assert stock.reply(stock.prefill(IDS), 1).token_ids == reply.token_ids[:1]


def test_the_reply_ends_where_it_is_told_to(engine, stock) -> None:
    ids = stock.reply(stock.prefill(IDS), 6).token_ids
    for number in (0, 2):
        ending = StockModel(engine.model, [ids[number]])
        assert ending.reply(ending.prefill(IDS), 6).token_ids == ids[: number + 1]


def test_the_ends_are_the_engines() -> None:
    tokenizer = byte_tokenizer()
    assert end_ids(paper_engine(tiny_llama(), tokenizer)) == {IM_END}
    model = tiny_llama(eos_token_id=7)
    model.generation_config.eos_token_id = [8, 9]
    assert end_ids(paper_engine(model, tokenizer)) == {7, 8, 9, IM_END}


def test_the_attention_function_is_off_during_the_call_and_back_after(engine, stock, monkeypatch) -> None:
    seen = []
    model = engine.model
    forward = type(model).forward

    def spy(self, *args, **kwargs):
        seen.append(self.config._attn_implementation)
        if len(seen) == 2:
            raise KeyError
        return forward(self, *args, **kwargs)

    monkeypatch.setattr(type(model), "forward", spy)
    before = model.config._attn_implementation
    stock.prefill(IDS)
    with pytest.raises(KeyError):
        stock.prefill(IDS)
    assert seen == ["sdpa", "sdpa"] and model.config._attn_implementation == before == "promptcache"


def test_a_model_without_our_function_is_left_alone() -> None:
    for attention in ("eager", "sdpa"):
        model = tiny_llama(attn_implementation=attention)
        StockModel(model, []).prefill(IDS)
        assert model.config._attn_implementation == attention


def test_nothing_of_ours_is_kept_in_its_cache(stock) -> None:
    prefill = stock.prefill(IDS)
    layers = chain.from_iterable((layer.keys, layer.values) for layer in prefill.cache.layers)
    assert type(prefill.cache).__module__.startswith("transformers.") and len(list(layers)) == 4
