"""The oracle proved against slower ways to the same numbers, each with stock transformers and no shared mask code."""

from __future__ import annotations

import random

import pytest
import torch
from transformers import AttentionInterface, DynamicCache

from tests.oracle import (
    FRESH,
    Token,
    additive_mask,
    fresh_rows,
    full_prefill_logits,
    next_token_logits,
    oracle_logits,
    sees_by_position,
    tokens,
)
from tests.tiny import BOS, IM_END, IM_START, UNK, VOCAB_SIZE, byte_tokenizer, tiny_llama

FLOOR = torch.finfo(torch.float32).min


@pytest.fixture(scope="module")
def model():
    return tiny_llama()


def close(a: torch.Tensor, b: torch.Tensor) -> bool:
    return bool((a - b).abs().max() < 1e-5 * max(1.0, float(b.abs().max())))


@torch.no_grad()
def encode_alone(model, ids: list[int], start: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Keys and values of one causal pass, layer by layer: [1, kv_heads, len(ids), head_dim] each."""
    cache = DynamicCache()
    positions = torch.arange(start, start + len(ids))[None]
    model(input_ids=torch.tensor([ids]), position_ids=positions, cache=cache, use_cache=True)
    return [(layer.keys, layer.values) for layer in cache.layers]


@torch.no_grad()
def continue_from(model, blocks, ids: list[int], positions: list[int], visible: list[list[bool]]) -> torch.Tensor:
    """Logits of `ids` behind the joined blocks, under a mask written row by row: [len(ids), vocab]."""
    cache = DynamicCache()
    for layer, parts in enumerate(zip(*blocks, strict=True)):
        cache.update(torch.cat([k for k, _ in parts], dim=2), torch.cat([v for _, v in parts], dim=2), layer)
    mask = torch.tensor([[[[0.0 if seen else FLOOR for seen in row] for row in visible]]])
    out = model(
        input_ids=torch.tensor([ids]),
        position_ids=torch.tensor([positions]),
        attention_mask=mask,
        cache=cache,
        use_cache=True,
    )
    return out.logits[0]


def test_all_fresh_is_the_stock_causal_forward(model):
    ids = list(b"the quick brown fox")
    with torch.no_grad():
        stock = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0]
    assert close(oracle_logits(model, tokens(ids, 0)), stock)
    assert close(full_prefill_logits(model, ids, list(range(len(ids)))), stock)


def test_two_isolated_groups_equal_two_passes_joined_by_hand(model):
    a, b, new = list(b"first part"), list(b"second"), list(b"ask")
    # a at 0..9, b at 14..19 after a gap, new text behind both
    given = tokens(a, 0, "a") + tokens(b, 14, "b") + tokens(new, 20)
    blocks = [encode_alone(model, a, 0), encode_alone(model, b, 14)]
    visible = [[True] * 16 + [j <= i for j in range(3)] for i in range(3)]
    assert close(oracle_logits(model, given)[16:], continue_from(model, blocks, new, [20, 21, 22], visible))


def test_a_fresh_token_between_groups_does_not_see_what_is_behind_it(model):
    a, b = list(b"abc"), list(b"uvwx")
    given = tokens(a, 0, "a") + tokens(b"??", 5) + tokens(b, 10, "b") + tokens(b"!", 14)
    blocks = [encode_alone(model, a, 0), encode_alone(model, b, 10)]
    visible = [
        [True, True, True, False, False, False, False, True, False, False],
        [True, True, True, False, False, False, False, True, True, False],
        [True, True, True, True, True, True, True, True, True, True],
    ]
    expected = continue_from(model, blocks, list(b"??!"), [5, 6, 14], visible)
    assert close(oracle_logits(model, given)[[3, 4, 9]], expected)


def test_a_ghost_is_seen_by_its_group_and_cut_out_of_the_request(model):
    # "pay [.. .. ..] now" is encoded with three placeholders, the request fills the first of their slots
    encoded = encode_alone(model, [*b"pay ", UNK, UNK, UNK, *b" now"], 0)
    kept = [(k[:, :, [0, 1, 2, 3, 7, 8, 9, 10]], v[:, :, [0, 1, 2, 3, 7, 8, 9, 10]]) for k, v in encoded]
    given = (
        tokens(b"pay ", 0, "m")
        + tokens([UNK] * 3, 4, "m", ghost=True)
        + tokens(b" now", 7, "m")
        + tokens(b"9", 4)
        + tokens(b"?", 11)
    )
    visible = [
        [True, True, True, True, False, False, False, False, True, False],
        [True, True, True, True, True, True, True, True, True, True],
    ]
    expected = continue_from(model, [kept], list(b"9?"), [4, 11], visible)
    assert close(oracle_logits(model, given)[[11, 12]], expected)
    without = [t for t in given if not t.ghost]
    assert not close(oracle_logits(model, without)[[8, 9]], expected), "the ghosts must matter"


def test_the_order_of_the_input_decides_nothing(model):
    given = tokens(b"one", 0, "a") + tokens(b"two", 7, "b") + tokens([UNK] * 2, 10, "b", ghost=True) + tokens(b"??", 12)
    expected = oracle_logits(model, given)
    order = list(range(len(given)))
    for seed in range(5):
        random.Random(seed).shuffle(order)
        shuffled = [given[n] for n in order]
        assert close(oracle_logits(model, shuffled), expected[order])
        assert [shuffled[n].position for n in fresh_rows(shuffled)] == [12, 13]
        assert close(next_token_logits(model, shuffled), expected[-1])


def test_a_gap_of_positions_hides_nothing(model):
    ids, positions = list(b"abcdef"), [0, 1, 2, 40, 41, 42]
    got = full_prefill_logits(model, ids, positions)
    # token by token, each seeing the whole cache: no mask is needed and none can be wrong
    cache = DynamicCache()
    with torch.no_grad():
        for n, (i, p) in enumerate(zip(ids, positions, strict=True)):
            out = model(
                input_ids=torch.tensor([[i]]), position_ids=torch.tensor([[p]]), cache=cache, use_cache=True
            ).logits[0, -1]
            assert close(got[n], out)
    other = full_prefill_logits(model, [*b"Xbc", *b"def"], positions)
    assert not close(got[3:], other[3:]), "a token behind the gap must see one before it"
    contiguous = full_prefill_logits(model, ids, list(range(6)))
    assert not close(got[3:], contiguous[3:]), "the gap itself must count"


def test_own_visibility_takes_the_place_of_the_rule(model):
    # an anchored group: b saw a when it was encoded, which makes the whole a plain causal pass
    given = tokens(b"head", 0, "a") + tokens(b"tail", 4, "b") + tokens(b"?", 8)
    plain = full_prefill_logits(model, list(b"headtail?"), list(range(9)))
    assert close(oracle_logits(model, given, lambda q, k: k.position < q.position), plain)
    assert not close(oracle_logits(model, given), plain)


def test_the_mask_spelled_out():
    given = [Token(1, 0, "m"), Token(9, 1, "m", ghost=True), Token(2, 2, "m"), Token(3, 1), Token(4, 3)]
    see = torch.tensor(
        [
            [1, 0, 0, 0, 0],
            [1, 1, 0, 0, 0],
            [1, 1, 1, 0, 0],
            [1, 0, 0, 1, 0],
            [1, 0, 1, 1, 1],
        ]
    )
    mask = additive_mask(given, sees_by_position, window=None, dtype=torch.float32)
    assert mask.dtype == torch.float32 and mask.shape == (1, 1, 5, 5)
    assert torch.equal(mask[0, 0] == 0, see.bool())
    assert set(mask.unique().tolist()) == {0.0, FLOOR}


@pytest.mark.parametrize("window", [None, 1, 4])
def test_all_pairs_at_once_are_the_pairs_one_by_one(window):
    draw = random.Random(0)
    for _ in range(20):
        groups = [draw.choice([FRESH, "a", "b"]) for _ in range(draw.randint(1, 12))]
        given = [Token(1, draw.randint(0, 9), group, group != FRESH and draw.random() < 0.4) for group in groups]
        at_once = additive_mask(given, sees_by_position, window=window, dtype=torch.float32)
        one_by_one = additive_mask(given, lambda q, k: sees_by_position(q, k), window=window, dtype=torch.float32)
        assert torch.equal(at_once, one_by_one)


def test_a_window_counts_positions_and_leaves_a_token_itself():
    given = [Token(1, 0), Token(2, 1), Token(3, 10), Token(4, 12)]
    mask = additive_mask(given, sees_by_position, window=3, dtype=torch.float32)[0, 0] == 0
    assert mask.tolist() == [
        [True, False, False, False],
        [True, True, False, False],
        [False, False, True, False],
        [False, False, True, True],
    ]


def test_a_model_with_another_attention_function_is_run_with_the_stock_one(model):
    def broken(module, query, key, value, attention_mask, **kwargs):
        raise AssertionError("the oracle used it")

    AttentionInterface.register("broken", broken)
    given = tokens(b"abc", 0, "a") + tokens(b"de", 5)
    expected = oracle_logits(model, given)
    model.set_attn_implementation("broken")
    try:
        assert torch.equal(oracle_logits(model, given), expected)
        assert model.config._attn_implementation == "broken"
    finally:
        model.set_attn_implementation("sdpa")


def test_mistakes_of_the_caller_are_refused(model):
    with pytest.raises(ValueError, match=r"positions used by two tokens: \[1\]"):
        oracle_logits(model, [Token(1, 0), Token(2, 1), Token(3, 1, "m")])
    with pytest.raises(ValueError, match=r"positions used by two tokens: \[1\]"):
        oracle_logits(model, [Token(1, 1, "m"), Token(2, 1, "m", ghost=True), Token(3, 2)])
    with pytest.raises(ValueError, match="ghost"):
        Token(1, 0, FRESH, ghost=True)
    with pytest.raises(ValueError, match="not fresh"):
        next_token_logits(model, [*tokens(b"ab", 0), *tokens(b"c", 2, "m")])


def test_the_stock_model_without_a_mask_takes_gaps_for_packed_sequences(model):
    """Why every call here passes a mask: the day this fails, the fact in DESIGN.md section 5 has changed."""
    ids, positions = list(b"abcdef"), [0, 1, 2, 40, 41, 42]
    with torch.no_grad():
        unmasked = model(input_ids=torch.tensor([ids]), position_ids=torch.tensor([positions]), use_cache=False).logits[
            0
        ]
    assert not close(unmasked[3:], full_prefill_logits(model, ids, positions)[3:])


class TestTiny:
    def test_ids_are_bytes(self):
        tokenizer = byte_tokenizer()
        for text in ("Hello, world\n\t  x", "naïve ☃ 🦊", "", "a\x00b\x7f", " lead and trail "):
            ids = tokenizer(text)["input_ids"]
            assert ids == list(text.encode())
            assert tokenizer.decode(ids) == text
        everything = list(range(256))
        assert tokenizer.convert_tokens_to_ids(tokenizer.convert_ids_to_tokens(everything)) == everything
        assert len(tokenizer) == VOCAB_SIZE

    def test_special_tokens_and_template(self):
        tokenizer = byte_tokenizer()
        assert tokenizer("<|im_start|>x<|im_end|>")["input_ids"] == [IM_START, ord("x"), IM_END]
        assert tokenizer.bos_token is None and tokenizer.unk_token_id == UNK
        turns = [{"role": "system", "content": "S"}, {"role": "user", "content": "U"}]
        ids = tokenizer.apply_chat_template(turns, add_generation_prompt=True)["input_ids"]
        assert ids == [
            *(IM_START, *b"system\nS", IM_END, *b"\n"),
            *(IM_START, *b"user\nU", IM_END, *b"\n"),
            *(IM_START, *b"assistant\n"),
        ]
        default = tokenizer.apply_chat_template(turns[1:], tokenize=False)
        assert default == "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nU<|im_end|>\n"

    def test_bos_on_demand(self):
        assert byte_tokenizer(bos=True)("hi")["input_ids"] == [BOS, *b"hi"]

    def test_model_is_made_the_same_each_time_and_leaves_the_global_generator_alone(self):
        torch.manual_seed(5)
        before = torch.random.get_rng_state()
        first, second, other = tiny_llama(), tiny_llama(), tiny_llama(seed=1)
        assert torch.equal(torch.random.get_rng_state(), before)
        assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
        assert not torch.equal(first.lm_head.weight, other.lm_head.weight)
        assert not first.training and first.dtype == torch.float32
        assert first.config.head_dim == 16 and first.generation_config.eos_token_id is None

    def test_overrides(self):
        model = tiny_llama(num_key_value_heads=1, head_dim=32)
        assert model.model.layers[0].self_attn.k_proj.out_features == 32
