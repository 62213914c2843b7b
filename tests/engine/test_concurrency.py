"""Many threads on one engine: what is wanted at once is encoded once, and nothing in use is harmed."""

from __future__ import annotations

import gc
import logging
import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

from promptcache import PromptCache, StoreConfig
from promptcache.errors import RequestError
from tests.engine.comparison import TOLERANCE, distance
from tests.engine.test_counts import PROMPTS, SCHEMA, HookCount
from tests.paper import paper_engine
from tests.tiny import byte_tokenizer, tiny_llama

PROMPT = PROMPTS[0]


def engine(**config: Any) -> PromptCache:
    return paper_engine(tiny_llama(), byte_tokenizer(), store=StoreConfig(**{"disk_bytes": 0, **config}))


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """What calls on threads of their own give, or raise, when they begin together."""
    barrier = threading.Barrier(len(calls))

    def run(call: Callable[[], Any]) -> Any:
        barrier.wait()
        try:
            return call()
        except Exception as fault:
            return fault

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


def test_two_requests_for_a_schema_that_is_not_encoded_encode_it_once():
    alone = engine()
    alone.load_schema(SCHEMA, encode=False)
    expected = alone.logits(PROMPT)
    made = engine()
    made.load_schema(SCHEMA, encode=False)
    plan = made.plan(PROMPT)
    passes = {run.segment.encoding_pass for run in plan.runs if run.segment}
    encoding = sum(len(made.schemas["s"].layout.passes[number].ids) for number in passes)
    with HookCount(made) as hook:
        found = at_once(*[lambda: made.logits(PROMPT)] * 4)
    assert all(torch.equal(logits, expected) for logits in found)
    assert hook.tokens == encoding + 4 * (plan.count("fresh") + plan.count("repaired"))


def test_two_loads_of_one_schema_encode_it_once():
    made = engine()
    with HookCount(made) as hook:
        found = at_once(*[lambda: made.load_schema(SCHEMA)] * 4)
    assert hook.tokens == sum(len(each.ids) for each in found[0].layout.passes)
    assert sorted({loaded.encoded_tokens for loaded in found}) in ([hook.tokens], [0, hook.tokens])


def test_of_two_schemas_of_one_name_one_is_loaded():
    made = engine()
    other = SCHEMA.replace("second", "another")
    found = at_once(lambda: made.load_schema(SCHEMA), lambda: made.load_schema(other))
    faults = [each for each in found if isinstance(each, RequestError)]
    assert len(faults) == 1 and "loaded already" in str(faults[0])
    assert made.schemas["s"] in found


def test_one_that_waits_tries_itself_when_the_other_fails():
    made = engine()
    made.load_schema(SCHEMA, encode=False)
    expected = engine()
    expected.load_schema(SCHEMA)
    encoding, waiting, failed = threading.Event(), threading.Event(), []

    def fail_once(*_: Any) -> None:
        if not failed:
            failed.append(True)
            encoding.set()
            waiting.wait(10)
            raise RuntimeError("half way")

    hook = made.model.register_forward_hook(fail_once)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(made.logits, PROMPT)
        encoding.wait(10)
        second = pool.submit(made.logits, PROMPT)
        threading.Timer(0.2, waiting.set).start()
        with pytest.raises(RuntimeError, match="half way"):
            first.result(20)
        assert torch.equal(second.result(20), expected.logits(PROMPT))
    hook.remove()
    assert made.store.stats().leases == 0


def test_unloading_during_a_request_never_harms_it():
    made = engine()
    made.load_schema(SCHEMA)
    expected = made.generate(PROMPT, max_new_tokens=8).text
    held = made.store.num_bytes
    with made.stream(PROMPT, max_new_tokens=8) as reply:
        text = next(iter(reply))
        made.unload_schema("s")
        assert len(made.store) == 0
        assert made.store.num_bytes == held, "memory in use is not free"
        assert text + "".join(reply) == expected
    assert made.store.num_bytes == 0


@pytest.mark.parametrize("how", ["close", "with", "drop", "drop the iterator", "finish"])
def test_a_lease_lasts_as_long_as_its_generation(how):
    made = engine()
    made.load_schema(SCHEMA)
    gc.disable()
    try:
        reply = made.stream(PROMPT, max_new_tokens=8)
        pieces = iter(reply)
        next(pieces)
        assert made.store.stats().leases > 0
        if how == "close":
            reply.close()
        elif how == "with":
            with reply:
                pass
        elif how == "drop":
            del reply, pieces
        elif how == "drop the iterator":
            del reply
            del pieces
        else:
            reply.finish()
        assert made.store.stats().leases == 0
    finally:
        gc.enable()


def test_no_call_leaves_a_lease():
    made = engine()
    made.load_schema(SCHEMA)
    prefix = made.prefix("Sort these. ")
    made.logits(PROMPT)
    made.continuation_logits(PROMPT, [1, 2])
    made.prepare(PROMPT)
    made.generate(PROMPT, max_new_tokens=2)
    made.session(PROMPT).send(max_new_tokens=2)
    prefix.logits("x")
    prefix.score("x", ["y", "z"])
    made.stream(PROMPT)
    assert made.store.stats().leases == 0


def test_a_prompt_that_needs_more_than_the_budget_is_answered(caplog):
    alone = engine()
    alone.load_schema(SCHEMA)
    made = engine(host_bytes=100)
    made.load_schema(SCHEMA)
    with caplog.at_level(logging.WARNING):
        assert distance(made.logits(PROMPT), alone.logits(PROMPT)) < TOLERANCE
    assert "used and not kept" in caplog.text
    assert made.store.num_bytes == 0


def test_a_schema_larger_than_the_budget_is_held_in_parts(tmp_path):
    modules = "".join(f'<module name="m{n}">{"text " * 8}{n}</module>' for n in range(12))
    text = f'<schema name="long">{modules}</schema>'
    alone = engine()
    whole = alone.load_schema(text).num_bytes
    made = engine(host_bytes=whole // 2, disk_bytes="1GiB", path=str(tmp_path))
    loaded = made.load_schema(text)
    assert loaded.encoded_tokens > 0 and 0 < made.store.num_bytes <= whole // 2
    assert len(list(tmp_path.glob("*.safetensors"))) > 4
    for prompt in ('<prompt schema="long"><m0/><m11/>?</prompt>', '<prompt schema="long"><m5/>?</prompt>'):
        with HookCount(made) as hook:
            # Blocks that lie in several arenas are attended in several calls.
            assert distance(made.logits(prompt), alone.logits(prompt)) < TOLERANCE
        assert hook.tokens == made.plan(prompt).count("fresh")


def test_a_pinned_schema_stays():
    other = [_schema(word) for word in WORDS]
    size = engine().load_schema(SCHEMA).num_bytes
    for pin in (True, False):
        made = engine(host_bytes=int(size * 2.5))
        made.load_schema(SCHEMA, pin=pin)
        for text in other:
            made.load_schema(text)
        with HookCount(made) as hook:
            made.logits(PROMPT)
        assert (hook.tokens == made.plan(PROMPT).count("fresh") + made.plan(PROMPT).count("repaired")) == pin
        made.unload_schema("s")
        assert made.store.num_bytes <= 2.5 * size


def test_a_schema_that_was_loaded_can_be_pinned():
    made = engine()
    assert not made.load_schema(SCHEMA).pinned
    assert made.load_schema(SCHEMA, pin=True).pinned
    assert made.load_schema(SCHEMA).pinned


WORDS = ("heron", "otter", "badger", "lynx", "raven", "stoat")


def _schema(word: str) -> str:
    return (
        f'<schema name="{word}">The {word} lives here. <module name="a">It sleeps in {word} beds. </module>'
        f'<module name="b">A {word} eats <parameter name="food" length="6"/> often. </module></schema>'
    )


def _prompts(word: str) -> list[str]:
    return [
        f'<prompt schema="{word}"><a/>Why?</prompt>',
        f'<prompt schema="{word}"><a/><b food="fish"/>Who?</prompt>',
        f'<prompt schema="{word}"><b food="nuts"/>What?</prompt>',
    ]


def resident_bytes() -> int:
    """Memory of this process, mapped files included; 0 where the system does not say."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * 4096 if statm.exists() else 0


@pytest.mark.parametrize(
    ("threads", "requests", "disk"),
    [(4, 60, False), (4, 60, True), pytest.param(16, 500, True, marks=pytest.mark.slow)],
)
def test_soak(tmp_path, threads, requests, disk):
    solo = engine()
    sizes = [solo.load_schema(_schema(word)).num_bytes for word in WORDS]
    expected = {prompt: solo.generate(prompt, max_new_tokens=6) for word in WORDS for prompt in _prompts(word)}
    config = {"disk_bytes": "1GiB", "path": str(tmp_path)} if disk else {}
    budget = max(sizes) * 3 + 100
    made = engine(host_bytes=budget, **config)
    for word in WORDS:
        made.load_schema(_schema(word), encode=False)

    def serve(number: int) -> str | None:
        draw = random.Random(number)
        prompt = draw.choice(list(expected))
        if number % 5 == 0:
            reply = made.stream(prompt, max_new_tokens=6)
            for _, _ in zip(range(draw.randrange(3)), reply, strict=False):
                pass
            return None
        done = made.generate(prompt, max_new_tokens=6)
        if done.token_ids != expected[prompt].token_ids or done.text != expected[prompt].text:
            return f"{prompt}: {done.text!r} for {expected[prompt].text!r}"
        held = made.store.num_bytes
        return f"{held} bytes are held" if held > budget else None

    with ThreadPoolExecutor(threads) as pool:
        assert not [fault for fault in pool.map(serve, range(requests // 2)) if fault]
        gc.collect()
        before = resident_bytes()
        assert not [fault for fault in pool.map(serve, range(requests // 2, requests)) if fault]
        gc.collect()
        assert resident_bytes() <= 1.05 * before
    stats = made.store.stats()
    assert stats.leases == 0 and stats.tiers["host"].num_bytes <= budget
    assert stats.tiers["host"].evictions > 0
