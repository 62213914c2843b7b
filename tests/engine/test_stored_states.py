"""Stored states are the same bytes before and after any request."""

from __future__ import annotations

from hashlib import blake2b

import pytest
import torch

from promptcache import PromptCache
from promptcache.runtime import encoder
from promptcache.runtime.states import segmented
from tests.engine.comparison import byte_engine

SCHEMA = """<schema name="s">Intro. <module name="a">first module <parameter name="p" length="6"/> end</module>
<module name="b">second module</module></schema>"""
PROMPT = '<prompt schema="s"><a p="now"/><b/>What?</prompt>'
OTHER = '<prompt schema="s"><b/>Another question</prompt>'


@pytest.fixture
def engine() -> PromptCache:
    engine = byte_engine()
    engine.load_schema(SCHEMA)
    return engine


def stored(engine: PromptCache) -> dict[str, str]:
    """A hash of each tensor's bytes, by segment."""
    hashes = {}
    for segment in engine.schemas["s"].layout.segments.values():
        block = engine.store.get(segment.key)
        assert block is not None
        for layer, (key, value) in enumerate(zip(block.keys, block.values, strict=True)):
            assert key.shape[-2] == value.shape[-2] == segment.length
            for kind, tensor in (("k", key), ("v", value)):
                name = f"{segment.owner}/{segment.offset}/{layer}/{kind}"
                hashes[name] = blake2b(tensor.contiguous().numpy().tobytes()).hexdigest()
    return hashes


def test_blocks_lie_side_by_side_and_nothing_else_is_kept(engine, monkeypatch):
    monkeypatch.setattr(segmented, "GATHERED_TOKENS", 10)
    segments = sorted(engine.schemas["s"].layout.segments.values(), key=lambda segment: segment.start)
    blocks = [engine.store.get(segment.key) for segment in segments]
    assert {id(block.place[0]) for block in blocks} == {id(blocks[0].place[0])}
    assert [block.place[1] for block in blocks] == [sum(s.length for s in segments[:n]) for n in range(len(segments))]
    storage = blocks[0].keys[0].untyped_storage()
    assert storage.nbytes() == sum(block.keys[0].numel() * 4 for block in blocks)
    # Neighbours with no computed token between are attended as one.
    state = engine._requests.assemble(engine._planned('<prompt schema="s"><a/><b/>What?</prompt>', True))
    assert [view.keys[0].shape[-2] for view in state.views] == [sum(s.length for s in segments)]


def test_an_encoding_that_fails_leaves_nothing(engine, monkeypatch):
    monkeypatch.setattr(encoder, "PACKED_TOKENS", 0)  # so that there are several passes
    held, passes = len(engine.store), 0

    def fail(*_):
        nonlocal passes
        passes += 1
        if passes == 2:
            raise RuntimeError("half way")

    hook = engine.model.register_forward_hook(fail)
    with pytest.raises(RuntimeError, match="half way"):
        engine.load_schema(
            '<schema name="t">Other. <module name="a">text</module><module name="b">more</module></schema>'
        )
    hook.remove()
    assert len(engine.store) == held and "t" not in engine.schemas


def test_requests_leave_stored_bytes_alone(engine):
    before = stored(engine)
    answers = [engine.generate(PROMPT, max_new_tokens=6) for _ in range(3)]
    assert answers[0].token_ids == answers[1].token_ids == answers[2].token_ids
    logits = [engine.logits(PROMPT) for _ in range(2)]
    assert torch.equal(*logits)
    engine.generate(OTHER, max_new_tokens=6)
    assert stored(engine) == before


def test_a_request_that_raises_leaves_them_alone(engine):
    before = stored(engine)
    calls = 0

    def fail(*_):
        nonlocal calls
        calls += 1
        if calls == 3:
            raise RuntimeError("half way")

    hook = engine.model.register_forward_hook(fail)
    with pytest.raises(RuntimeError, match="half way"):
        engine.generate(PROMPT, max_new_tokens=6)
    hook.remove()
    assert stored(engine) == before
    assert engine.generate(PROMPT, max_new_tokens=2).usage.reused_tokens > 0


def test_an_abandoned_stream_leaves_them_alone(engine):
    before = stored(engine)
    stream = iter(engine.stream(PROMPT, max_new_tokens=20))
    next(stream)
    del stream
    assert stored(engine) == before


def test_stored_states_can_be_used_outside_no_grad(engine):
    block = next(iter(engine.store.held().values()))
    copy = block.keys[0].clone()
    copy += 1  # an inference tensor would refuse
    assert not block.keys[0].requires_grad


def test_unloading_frees_what_no_other_schema_shares(engine):
    engine.load_schema(SCHEMA.replace('name="s"', 'name="twin"', 1))
    held = len(engine.store)
    engine.unload_schema("s")
    assert len(engine.store) == held  # the same text at the same positions is one block
    engine.unload_schema("twin")
    assert len(engine.store) == 0 and engine.store.num_bytes == 0
