"""`generate_batch` gives what `generate` gives for each prompt."""

from __future__ import annotations

from random import Random

import pytest

from promptcache.errors import BatchError, PromptError, RequestError
from promptcache.models.sampling import Sampler
from promptcache.runtime.reply import replies
from tests.engine.batches import batch_engine, random_prompt
from tests.engine.test_concurrency import at_once
from tests.engine.test_counts import HookCount
from tests.paper import paper_engine
from tests.tiny import byte_tokenizer, tiny_llama


@pytest.fixture(scope="module", params=["reserved", "compact"])
def engine(request):
    return batch_engine(request.param)


def same(batched, alone):
    """All but the timings."""
    for ours, right in zip(batched, alone, strict=True):
        assert ours.token_ids == right.token_ids and ours.text == right.text
        assert (ours.finish_reason, ours.usage, ours.exact) == (right.finish_reason, right.usage, right.exact)
        assert (ours.repair, ours.encoding, ours.layout) == (right.repair, right.encoding, right.layout)


@pytest.mark.parametrize("max_batch", [1, 3, 32])
def test_each_reply_is_that_of_generate(engine, max_batch):
    prompts = [random_prompt(Random(seed), engine.layout) for seed in range(9)]
    alone = [engine.generate(prompt, max_new_tokens=6) for prompt in prompts]
    same(engine.generate_batch(prompts, max_batch=max_batch, max_new_tokens=6), alone)
    assert engine.store.stats().leases == 0


def test_own_options_for_each(engine):
    prompts = [random_prompt(Random(seed), engine.layout) for seed in range(6)]
    each = [
        {"max_new_tokens": 1},
        {"temperature": 1.5, "seed": 3, "max_new_tokens": 9},
        {"temperature": 0.7, "top_p": 0.8, "seed": 4},
        {"top_k": 5, "temperature": 2.0, "seed": 5},
        {"repetition_penalty": 1.7, "max_new_tokens": 12},
        {"stop": ("a", "e", "\x00")},
    ]
    shared = {"max_new_tokens": 7}
    alone = [engine.generate(prompt, **{**shared, **own}) for prompt, own in zip(prompts, each, strict=True)]
    same(engine.generate_batch(prompts, each=each, **shared), alone)
    assert len({len(reply.token_ids) for reply in alone}) > 2
    with pytest.raises(RequestError, match="6 prompts and options for 1"):
        engine.generate_batch(prompts, each=[{}])


def test_without_reuse_and_with_repair(engine):
    prompts = [random_prompt(Random(seed), engine.layout) for seed in range(5)]
    for options in ({"reuse": False}, {"repair": "link:2"}):
        alone = [engine.generate(prompt, max_new_tokens=3, **options) for prompt in prompts]
        same(engine.generate_batch(prompts, max_new_tokens=3, **options), alone)


def test_an_end_of_sequence_ends_a_row_and_lets_the_next_join():
    model = tiny_llama(initializer_range=0.2)
    engine = paper_engine(model, byte_tokenizer())
    prompts = [f"prompt number {number}" for number in range(7)]
    model.generation_config.eos_token_id = engine.generate(prompts[2], max_new_tokens=4).token_ids[1]
    engine = paper_engine(model, byte_tokenizer())
    alone = [engine.generate(prompt, max_new_tokens=12) for prompt in prompts]
    assert len({len(reply.token_ids) for reply in alone}) > 1
    same(engine.generate_batch(prompts, max_batch=2, max_new_tokens=12), alone)


def test_rows_near_the_last_position():
    """One has a long prefix and a short text, the other the opposite; together they have more tokens than positions."""
    engine = paper_engine(tiny_llama(max_position_embeddings=64, initializer_range=0.2), byte_tokenizer())
    engine.load_schema(f'<schema name="n"><module name="m">{"m" * 50}</module></schema>')
    prompts = ['<prompt schema="n"><m/>??</prompt>', "x" * 60, "y"]
    alone = [engine.generate(prompt, max_new_tokens=30) for prompt in prompts]
    assert [len(reply.token_ids) for reply in alone] == [13, 5, 30]
    same(engine.generate_batch(prompts, max_new_tokens=30), alone)


def test_the_assembled_path_answers_one_by_one():
    engine = batch_engine()
    assembled = paper_engine(engine.model, engine.tokenizer, attention="assembled")
    for schema in engine.schemas.values():
        assembled.load_schema(schema.layout.schema)
    prompts = [random_prompt(Random(seed), "reserved") for seed in range(4)]
    same(assembled.generate_batch(prompts, max_new_tokens=4), engine.generate_batch(prompts, max_new_tokens=4))


def test_no_prompts_and_no_place(engine):
    assert engine.generate_batch([]) == []
    for size in (0, -1, 1.5, True):
        with pytest.raises(RequestError, match="max_batch"):
            engine.generate_batch(["a"], max_batch=size)


def test_one_text_is_no_batch(engine):
    for ask in (engine.generate_batch, engine.prefix("Once").generate_batch):
        with pytest.raises(RequestError, match="one text"):
            ask("a text")


def test_a_faulty_prompt_is_named_before_anything_runs(engine):
    with HookCount(engine) as hook, pytest.raises(PromptError, match="number 2 of the batch") as caught:
        engine.generate_batch(["a", "b", '<prompt schema="s"><nothing/></prompt>', "c"])
    assert hook.tokens == 0 and caught.value.line == 1
    with pytest.raises(RequestError, match="number 1 of the batch"):
        engine.generate_batch(["a", ""])


def test_a_fault_in_one_row_harms_no_other(engine, monkeypatch):
    prompts = [random_prompt(Random(seed), engine.layout) for seed in range(5)]
    each = [{"seed": number, "temperature": 1.0} for number in range(5)]
    alone = [engine.generate(prompt, max_new_tokens=6, **own) for prompt, own in zip(prompts, each, strict=True)]
    draw = Sampler.draw

    def faulty(self, logits, context):
        if self.seed == 1 or (self.seed == 3 and len(context) > len(engine.plan(prompts[3]).token_ids) + 2):
            raise FloatingPointError("no number")
        return draw(self, logits, context)

    monkeypatch.setattr(Sampler, "draw", faulty)
    with pytest.raises(BatchError, match=r"2 of 5 replies failed; the first is number 1.*no number") as caught:
        engine.generate_batch(prompts, max_batch=3, each=each, max_new_tokens=6)
    assert caught.value.faults.keys() == {1, 3}
    kept = [(ours, right) for ours, right in zip(caught.value.completions, alone, strict=True) if ours is not None]
    assert len(kept) == 3
    same(*zip(*kept, strict=True))
    assert engine.store.stats().leases == 0


def test_a_pass_that_fails_gives_everything_back(engine):
    prompts = ['<prompt schema="s"><l/>a</prompt>', "b"]
    engine.model.train()
    try:
        with pytest.raises(RequestError, match="training mode"):
            engine.generate_batch(prompts)
    finally:
        engine.model.eval()
    assert engine.store.stats().leases == 0


def test_many_new_tokens_join_in_turns(engine, monkeypatch):
    prompts = [letter * 40 for letter in "abcdefg"]
    alone = [engine.generate(prompt, max_new_tokens=4) for prompt in prompts]
    monkeypatch.setattr(replies, "MOST_TOKENS", 100)
    sizes = []
    hook = engine.model.register_forward_pre_hook(
        lambda module, args, kwargs: sizes.append(kwargs["input_ids"].numel()), with_kwargs=True
    )
    same(engine.generate_batch(prompts, max_new_tokens=4), alone)
    hook.remove()
    # Two prompts at a time; the first ones end with the third pass after theirs.
    assert sizes == [80, 82, 84, 46, 5, 3, 1]


def test_counts_and_timings(engine):
    prompts = [random_prompt(Random(seed), engine.layout) for seed in range(6)]
    with HookCount(engine) as hook:
        done = engine.generate_batch(prompts, max_new_tokens=1, max_batch=4)
    assert hook.tokens == sum(reply.usage.computed_tokens for reply in done)
    done = engine.generate_batch(prompts, max_new_tokens=3, max_batch=2)
    for reply in done:
        timings = reply.timings
        parts = timings.plan_ms + timings.assemble_ms + timings.prefill_ms
        assert timings.ttft_ms == pytest.approx(parts, rel=0.02)
        assert timings.total_ms == pytest.approx(timings.ttft_ms + timings.decode_ms, rel=0.02)
    assert done[0].timings.total_ms < done[-1].timings.ttft_ms, "the last waited for a place"


def test_a_prefix(engine):
    prefix = engine.prefix("You answer in one word. " * 12)
    suffixes = ["", "a", "What is this?", "x" * 150]
    alone = [prefix.generate(suffix, max_new_tokens=5) for suffix in suffixes]
    same(prefix.generate_batch(suffixes, max_new_tokens=5), alone)
    talk = engine.prefix([{"role": "system", "content": "You answer in one word."}])
    turns = ["hello", [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]]
    same(talk.generate_batch(turns, max_new_tokens=5), [talk.generate(each, max_new_tokens=5) for each in turns])
    with pytest.raises(RequestError, match="number 1 of the batch"):
        prefix.generate_batch(["a", [{"role": "user", "content": "a"}]])


def test_batches_on_many_threads(engine):
    prompts = [random_prompt(Random(seed), engine.layout) for seed in range(6)]
    alone = [engine.generate(prompt, max_new_tokens=4) for prompt in prompts]
    calls = [lambda: engine.generate_batch(prompts, max_new_tokens=4, max_batch=3)] * 3
    for found in at_once(*calls, lambda: [engine.generate(prompt, max_new_tokens=4) for prompt in prompts]):
        same(found, alone)
    assert engine.store.stats().leases == 0


def test_states_that_two_rows_want_are_encoded_once():
    engine = batch_engine()
    engine.load_schema(
        '<schema name="lazy"><module name="m">a module that is encoded late</module></schema>', encode=False
    )
    prompts = ['<prompt schema="lazy"><m/>?</prompt>', '<prompt schema="lazy"><m/>!!</prompt>']
    with HookCount(engine) as hook:
        done = engine.generate_batch(prompts, max_new_tokens=1)
    length = len("a module that is encoded late")
    assert [reply.usage.computed_tokens for reply in done] == [length + 1, 2]
    assert hook.tokens == length + 3
