"""Every row of a batch equals its request alone, at every step."""

from __future__ import annotations

from random import Random

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from promptcache.layout.token_tree import TokenTree
from promptcache.runtime.batch import shared
from tests.engine.batches import REPAIRS, Rows, batch_engine, random_prompt
from tests.engine.comparison import TOLERANCE, distance
from tests.engine.test_counts import HookCount
from tests.oracle import FRESH, next_token_logits, tokens


@pytest.fixture(scope="module", params=["reserved", "compact"])
def engine(request):
    return batch_engine(request.param)


def run(engine, random, steps):
    """Rows that join and leave at random."""
    rows = Rows(engine)
    most = random.choice([1, 3, 8, 32])
    for _ in range(steps):
        while len(rows.batch) < most and random.random() < 0.6:
            prompt = random_prompt(random, engine.layout)
            rows.join(prompt, repair=random.choice(REPAIRS), reuse=random.random() < 0.9)
        rows.step()
        for row in list(rows.tokens):
            if random.random() < 0.15:
                rows.leave(row)
    for row in list(rows.alone):
        rows.leave(row)
    assert rows.batch.num_bytes == 0


unhurried = settings(deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


@settings(unhurried, max_examples=12)
@given(seed=st.integers(0, 1 << 32))
def test_rows_that_join_and_leave(engine, seed):
    run(engine, Random(seed), 8)


@pytest.mark.slow
@settings(unhurried, max_examples=500)
@given(seed=st.integers(0, 1 << 32))
def test_many_rows_that_join_and_leave(engine, seed):
    run(engine, Random(seed), 40)


@pytest.mark.parametrize("rows", [1, 2, 7, 16, 32])
def test_lengths_from_1_to_200(engine, rows):
    batch = Rows(engine)
    for number in range(rows):
        length = 1 + 199 * number // max(rows - 1, 1)
        batch.join(f'<prompt schema="s"><b/><l/>{"q" * (length - 1)}?</prompt>')
    for _ in range(4):
        batch.step()


def test_arguments_of_different_lengths(engine):
    rows = Rows(engine)
    for length in range(10):
        rows.join(f'<prompt schema="s"><a p="{"x" * length}"/><l/><c/>?</prompt>')
    for _ in range(20):
        rows.step()


def test_prompts_with_nothing_fresh(engine):
    rows = Rows(engine)
    for prompt in ('<prompt schema="s"><b/></prompt>', '<prompt schema="s"><b/><l/></prompt>', '<prompt schema="s"/>'):
        for _ in range(2):
            rows.join(prompt)
    for _ in range(3):
        rows.step()


@pytest.mark.parametrize("repair", ["link:3", "query:0.1", "query:0.5", "full"])
def test_repair(engine, repair):
    rows = Rows(engine)
    for number in range(4):
        rows.join(f'<prompt schema="s"><a p="{"y" * number}"/><l/><c/>{"?" * (number + 1)}</prompt>', repair=repair)
    rows.join('<prompt schema="s"><l/>!</prompt>')
    for _ in range(4):
        rows.step()


def test_short_segments_one_by_one_and_long_ones_together(engine, monkeypatch):
    """Nothing is pooled, or all is."""
    for limit in (0, 10_000):
        monkeypatch.setattr(shared, "POOLED_TOKENS", limit)
        run(engine, Random(limit), 8)


def test_a_batch_equals_the_oracle():
    """Ids, positions and what is seen, written by hand."""
    engine = batch_engine()
    engine.load_schema('<schema name="o">ab<module name="m">cdef</module><module name="n">ghi</module></schema>')
    front, ending = ("ab", 0, "1"), ("ghi", 6, "3")
    prompts = {
        '<prompt schema="o"><m/><n/>why?</prompt>': [front, ("cdef", 2, "2"), ending, ("why?", 9, FRESH)],
        '<prompt schema="o"><n/>!</prompt>': [front, ending, ("!", 9, FRESH)],
        '<prompt schema="o"><m/></prompt>': [front, ("cde", 2, "2"), ("f", 5, FRESH)],
        "no schema at all": [("no schema at all", 0, FRESH)],
    }
    rows = Rows(engine)
    numbers = [rows.join(prompt) for prompt in prompts]
    found = rows.batch.step({})
    grown = [[t for text, at, group in parts for t in tokens(text.encode(), at, group)] for parts in prompts.values()]
    for _ in range(3):
        chosen = {}
        for number, row in zip(numbers, grown, strict=True):
            assert distance(found[number][-1], next_token_logits(engine.model, row)) < TOLERANCE
            chosen[number] = int(found[number][-1].argmax())
            row += tokens([chosen[number]], row[-1].position + 1)
        found = rows.batch.step(chosen)


def test_stored_bytes_are_unchanged_and_no_token_is_padding(engine):
    prompts = [random_prompt(Random(seed), engine.layout) for seed in range(12)]
    rows = Rows(engine)
    for prompt in prompts:
        rows.join(prompt)
    settled = [engine._requests.settle(engine._planned(prompt, True)) for prompt in prompts]
    before = [[t.clone() for block in each.blocks.values() for t in (*block.keys, *block.values)] for each in settled]
    with HookCount(engine) as hook:
        rows.batch.step({})
    assert hook.tokens == sum(each.plan.count("fresh") + each.plan.count("repaired") for each in settled)
    for each, old in zip(settled, before, strict=True):
        now = [t for block in each.blocks.values() for t in (*block.keys, *block.values)]
        assert all(torch.equal(a, b) for a, b in zip(now, old, strict=True))


def test_keys_and_values_of_a_row_stay_its_own():
    """Also when rows move to longer buffers and into freed places."""
    engine = batch_engine()
    rows = Rows(engine)
    numbers = [rows.join(f'<prompt schema="s">{"abcdefgh"[n] * (3 + 11 * n)}</prompt>') for n in range(8)]
    for step in range(40):
        rows.step()
        if step in (3, 9, 20):
            rows.leave(numbers.pop(0))
    for number in numbers:
        ours, alone = rows.batch.computed(number), rows.alone[number].computed()
        for mine, right in zip((*ours.keys, *ours.values), (*alone.keys, *alone.values), strict=True):
            assert mine.shape == right.shape and distance(mine, right) < TOLERANCE


def test_a_row_goes_on_behind_a_tree(engine):
    """The tree's states are forgotten, whatever other rows did in that pass."""
    tree = TokenTree.of([b"yes", b"yet", b"no"])
    rows = Rows(engine)
    other = rows.join('<prompt schema="s"><l/>?</prompt>')
    planned = engine._planned('<prompt schema="s"><b/><l/>Is it? </prompt>', True)
    settled = engine._requests.settle(planned)
    row = rows.batch.join(settled.plan, settled.blocks, tree)
    alone = engine._requests.state(planned, settled, 40)
    found = rows.batch.step({})
    right = alone.prefill_tree(tree)
    assert found[row].shape == right.shape and distance(found[row], right) < TOLERANCE
    assert distance(found[other][-1], rows.alone[other].prefill()[-1]) < TOLERANCE
    rows.alone[row] = alone
    rows.tokens = {other: 65, row: 66}
    for _ in range(12):
        rows.step()
