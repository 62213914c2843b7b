"""Replies that come and go while others run, as a server has them."""

from __future__ import annotations

import pytest

from promptcache.runtime.reply.options import Sampling
from promptcache.runtime.reply.replies import Replies
from promptcache.runtime.timing import Stopwatch
from tests.engine.batches import batch_engine
from tests.engine.comparison import TOLERANCE, distance

PROMPTS = [
    '<prompt schema="s"><l/>What?</prompt>',
    '<prompt schema="s"><b/><l/>Who is it</prompt>',
    '<prompt schema="t"><x/>?</prompt>',
    "none",
]


@pytest.fixture(scope="module")
def engine():
    return batch_engine()


def reply(engine, prompt, on_finish=None, **options):
    sampling = Sampling.of(options)
    return engine._requests.reply(engine._planned(prompt, True), sampling, Stopwatch(), on_finish)


def test_one_that_is_added_while_others_run(engine):
    alone = [engine.generate(prompt, max_new_tokens=9) for prompt in PROMPTS]
    made = [reply(engine, prompt, max_new_tokens=9) for prompt in PROMPTS]
    texts = dict.fromkeys(range(len(made)), "")
    with Replies(engine._adapter, 8) as running:
        waiting = list(made)
        while waiting or running:
            if waiting:
                running.add(waiting.pop(0))
            for each in running.step():
                texts[made.index(each)] += each.piece
    for number, (each, right) in enumerate(zip(made, alone, strict=True)):
        assert each.completion.token_ids == right.token_ids and texts[number] == right.text
        assert each.completion.usage == right.usage
    assert engine.store.stats().leases == 0


def test_what_is_dropped_is_gone_and_the_others_go_on(engine):
    right = engine.generate(PROMPTS[3], max_new_tokens=6).token_ids
    made = [reply(engine, prompt, max_new_tokens=6) for prompt in PROMPTS]
    with Replies(engine._adapter, 3) as running:
        for each in made:
            running.add(each)
        assert running.step() == made[:3] and len(running) == 4
        running.drop(made[0])
        assert running.step() == [made[1], made[2], made[3]]
        running.drop(made[1])
        running.drop(made[2])
        running.drop(made[2])
        assert len(running) == 1 and engine.store.stats().leases == 0
        while running:
            running.step()
    assert made[3].completion.token_ids == right
    assert made[0].completion is None and made[0].fault is None


def test_what_is_left_is_given_back(engine):
    running = Replies(engine._adapter, 2)
    for prompt in PROMPTS:
        running.add(reply(engine, prompt))
    running.step()
    assert engine.store.stats().leases
    running.close()
    assert engine.store.stats().leases == 0 and len(running) == 0


def test_a_finished_reply_leaves_its_states(engine):
    left = {}

    def keep(name):
        return lambda plan, state, completion: left.update({name: (state.computed(), completion.token_ids)})

    sampling = Sampling.of({"max_new_tokens": 4})
    with Replies(engine._adapter, 8) as running:
        for prompt in PROMPTS:
            running.add(reply(engine, prompt, keep(prompt), max_new_tokens=4))
        while running:
            running.step()
    for prompt in PROMPTS:
        states, tokens = left[prompt]
        engine._requests.generation(engine._planned(prompt, True), sampling, Stopwatch(), keep("alone")).finish()
        alone, right = left["alone"]
        assert tokens == right
        for ours, theirs in zip((*states.keys, *states.values), (*alone.keys, *alone.values), strict=True):
            assert ours.shape == theirs.shape and distance(ours, theirs) < TOLERANCE


def test_a_fault_at_the_end_of_one_is_its_own(engine):
    def fail(*_):
        raise OSError("no room")

    made = [reply(engine, PROMPTS[0], fail, max_new_tokens=2), reply(engine, PROMPTS[1], max_new_tokens=3)]
    with Replies(engine._adapter, 8) as running:
        for each in made:
            running.add(each)
        while running:
            running.step()
    assert isinstance(made[0].fault, OSError) and made[1].completion is not None
