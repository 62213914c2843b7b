"""Modules in main memory, the model elsewhere: copies come as late as they may, and answers are the same."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from promptcache import PromptCache, StoreConfig
from promptcache.kv.arena import PinnedArena
from promptcache.kv.devices import Devices
from promptcache.models.adapter import ModelAdapter
from promptcache.runtime.states import segmented
from tests.engine.comparison import distance, expect
from tests.engine.test_compact_against_oracle import TWO, stored
from tests.kv.fake_gpu import fake_gpu
from tests.kv.fake_transfers import GPU, FakeTransfers, fake_transfers
from tests.oracle import tokens
from tests.paper import paper_engine
from tests.tiny import byte_tokenizer, tiny_llama

HOST = StoreConfig(device_bytes=0, disk_bytes=0)
LONG = "the states of this module are copied layer by layer " * 4
SCHEMA = f'<schema name="s">Begin. <module name="a">{LONG}</module><module name="b">short</module></schema>'
PROMPT = '<prompt schema="s"><a/><b/>why?</prompt>'


@pytest.fixture
def carrier(monkeypatch) -> Iterator[FakeTransfers]:
    """The model computes on the CPU and says that it does not."""
    monkeypatch.setattr(ModelAdapter, "devices", property(lambda self: Devices([GPU] * self.num_layers)))
    with fake_transfers() as carrier:
        yield carrier


def engine(store: StoreConfig = HOST, **options) -> PromptCache:
    # The self-check is one of its own, and its findings would stay for other tests.
    model = tiny_llama(num_hidden_layers=4)
    return paper_engine(model, byte_tokenizer(), store=store, self_check=False, **options)


@pytest.mark.parametrize("attention", ["segments", "assembled"])
@pytest.mark.parametrize("layout", ["reserved", "compact"])
@pytest.mark.parametrize("gathered", [0, 128])
def test_answers_are_those_of_a_model_in_main_memory(carrier, monkeypatch, attention, layout, gathered):
    monkeypatch.setattr(segmented, "GATHERED_TOKENS", gathered)
    far = engine(attention=attention, layout=layout)
    far.load_schema(SCHEMA)
    assert [type(block.place[0]) for block in far.store.held().values()] == [PinnedArena] * 3
    assert list(far.store.stats().tiers) == ["host"]
    with monkeypatch.context() as patch:
        patch.setattr(ModelAdapter, "devices", property(lambda self: Devices([torch.device("cpu")] * self.num_layers)))
        # On a CPU neighbours are attended as one under a mask, which sums the same numbers in another order.
        patch.setattr(segmented, "_COVER_SCORES", 0)
        near = engine(attention=attention, layout=layout)
        near.load_schema(SCHEMA)
        prompt = PROMPT if layout == "reserved" else '<prompt schema="s"><b/><a/>why?</prompt>'
        expected, logits = near.generate(prompt, max_new_tokens=6), near.logits(prompt)
        repaired = near.logits(prompt, repair="query:0.2+link:2")
    before = {key: block.copy() for key, block in far.store.held().items()}
    for _ in range(2):
        found = far.generate(prompt, max_new_tokens=6)
        assert found.token_ids == expected.token_ids and found.usage == expected.usage
    assert distance(far.logits(prompt), logits) < 1e-5
    assert distance(far.logits(prompt, repair="query:0.2+link:2"), repaired) < 1e-5
    rest = far.prepare(prompt)
    replied = far.model.generate(**rest, max_new_tokens=6, do_sample=False)[0, -6:]
    assert replied.tolist() == list(expected.token_ids)
    assert all(torch.equal(block.keys[1], before[key].keys[1]) for key, block in far.store.held().items())
    assert far.store.stats().leases == 0


def test_against_the_oracle(carrier, monkeypatch):
    monkeypatch.setattr(segmented, "GATHERED_TOKENS", 0)
    far = engine(layout="compact")
    given = [*stored("xyz", 0, "b"), *stored("abcde", 3, "a"), *tokens(b"why?", 8)]
    expected, limit = expect(far.model, given)
    far.load_schema(TWO)
    for _ in range(2):
        assert distance(far.logits('<prompt schema="s"><b/><a/>why?</prompt>'), expected) < 3 * limit


def test_the_self_check_reads_no_copy_too_soon(carrier):
    from promptcache.runtime.checks import self_check

    adapter = ModelAdapter(tiny_llama(num_hidden_layers=4))
    for layout in ("reserved", "compact"):
        assert self_check._look(adapter, "segments", layout) is None


def test_only_what_a_request_uses_is_copied_and_once(carrier, monkeypatch):
    monkeypatch.setattr(segmented, "GATHERED_TOKENS", 0)
    far = engine()
    far.load_schema(SCHEMA)
    far.generate(PROMPT, max_new_tokens=1)
    once = sum(room.numel() for room in carrier.rooms)
    assert once == 4 * 2 * 2 * 16 * far.plan(PROMPT).count("reused")
    del carrier.rooms[:]
    far.generate(PROMPT, max_new_tokens=9)
    assert sum(room.numel() for room in carrier.rooms) == once
    far.logits("no modules at all")
    assert sum(room.numel() for room in carrier.rooms) == once


def test_what_rests_on_disk_comes_by_way_of_locked_memory(carrier, tmp_path):
    first = engine(StoreConfig(device_bytes=0, path=tmp_path))
    first.load_schema(SCHEMA)
    expected = first.generate(PROMPT, max_new_tokens=6)
    second = engine(StoreConfig(device_bytes=0, path=tmp_path))
    assert second.load_schema(SCHEMA).encoded_tokens == 0
    found = second.generate(PROMPT, max_new_tokens=6)
    assert found.token_ids == expected.token_ids and found.usage == expected.usage
    assert [type(block.place[0]) for block in second.store.held().values()] == [PinnedArena] * 3


def test_what_the_host_has_no_room_for_is_served_all_the_same(carrier):
    far, small = engine(), engine(StoreConfig(host_bytes=1000, device_bytes=0, disk_bytes=0))
    for each in (far, small):
        each.load_schema(SCHEMA)
    assert small.generate(PROMPT).token_ids == far.generate(PROMPT).token_ids
    assert small.store.num_bytes <= 1000


def test_a_request_that_ends_early_leaves_the_next_one_right(carrier):
    far = engine()
    far.load_schema(SCHEMA)
    expected = far.generate(PROMPT, max_new_tokens=6).token_ids
    with far.stream(PROMPT) as stream:
        next(iter(stream))
    stopped = far.stream(PROMPT)
    del stopped
    assert far.generate(PROMPT, max_new_tokens=6).token_ids == expected
    assert far.store.stats().leases == 0


def test_laps_wait_for_the_device(carrier):
    far = engine()
    far.load_schema(SCHEMA)
    del carrier.log[:]
    far.generate(PROMPT, max_new_tokens=2)
    waits = [entry for entry in carrier.log if entry[0] == "wait"]
    assert len(waits) == 4, "planning, assembling, prefill, decoding"


@pytest.mark.parametrize(
    ("dtype", "kernels"), [(torch.float32, {"efficient"}), (torch.float16, {"efficient", "flash"})]
)
@pytest.mark.parametrize("layout", ["reserved", "compact"])
def test_with_the_kernels_of_a_gpu_as_well(carrier, monkeypatch, dtype, kernels, layout):
    monkeypatch.setattr(segmented, "GATHERED_TOKENS", 0)
    prompt = '<prompt schema="s"><b/><a/>why?</prompt>'
    far = paper_engine(
        tiny_llama(num_hidden_layers=4, initializer_range=0.2).to(dtype),
        byte_tokenizer(),
        layout=layout,
        store=HOST,
        self_check=False,
    )
    far.load_schema(SCHEMA)
    expected = far.continuation_logits(prompt, list(b"because"))
    with fake_gpu() as called:
        found = far.continuation_logits(prompt, list(b"because"))
        steps = far.generate(prompt, max_new_tokens=6).token_ids
    assert set(called) == kernels
    error = distance(found, expected) / float(expected.std())
    assert error < (1e-4 if dtype == torch.float32 else 3e-2)
    if dtype == torch.float32:
        assert steps == far.generate(prompt, max_new_tokens=6).token_ids
