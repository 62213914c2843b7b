"""What the rows of a batch share: one call of the kernel, one copy in memory."""

from __future__ import annotations

import gc

import pytest
import torch

from promptcache import Prompt, StoreConfig
from promptcache.kv import batch as kv_batch
from promptcache.runtime.batch.batch import Batch
from tests.engine.batches import LONG, Rows, batch_engine
from tests.engine.comparison import byte_engine
from tests.paper import paper_engine
from tests.tiny import byte_tokenizer, tiny_llama

ROWS = 16
TEXT = "The pilots read the tables before every departure of a ship from the harbour. "
SCHEMA = '<schema name="big">' + "".join(f'<module name="m{n}">{n}{TEXT * 3}</module>' for n in range(8)) + "</schema>"
IMPORTS = "".join(f"<m{n}/>" for n in range(8))


def prompts(fresh=32):
    return [f'<prompt schema="big">{IMPORTS}{n:02}{"?" * (fresh - 2)}</prompt>' for n in range(ROWS)]


def joined(engine, asked):
    batch, held = Batch(engine._adapter), []
    for prompt in asked:
        held.append(engine._requests.settle(engine._planned(prompt, True)))
        batch.join(held[-1].plan, held[-1].blocks)
    return batch, held


@pytest.fixture
def calls(monkeypatch):
    """The keys of each call of the kernel: [batch, tokens]."""
    found = []

    def spied(module):
        attend = module.attend

        def spy(query, key, value, **more):
            found.append((key.shape[0], key.shape[2]))
            return attend(query, key, value, **more)

        monkeypatch.setattr(module, "attend", spy)

    from promptcache.kv import segments

    spied(kv_batch)
    spied(segments)
    return found


@pytest.mark.parametrize("layout", ["reserved", "compact"])
def test_what_all_import_is_attended_once_for_all(layout, calls):
    """In the reserved layout the modules are one view; in the compact one each is moved by a shift of its own."""
    engine = byte_engine(layout=layout, max_position_embeddings=4096)
    stored = engine.load_schema(SCHEMA).num_tokens
    views = [(1, stored)] if layout == "reserved" else [(1, stored // 8)] * 8
    batch, _ = joined(engine, prompts())
    layers = engine._adapter.num_layers
    calls.clear()
    logits = batch.step({})
    assert calls == [(ROWS, 32), *views] * layers
    calls.clear()
    batch.step({row: int(each[-1].argmax()) for row, each in logits.items()})
    assert calls == [(ROWS, 33), *views] * layers


def test_rows_that_import_a_part_share_that_part(calls):
    engine = batch_engine()
    rows = Rows(engine)
    for prompt in ("<l/>a", "<l/>bb", "<b/><l/>cc", "<b/>d"):
        rows.join(f'<prompt schema="s">{prompt}</prompt>')
    calls.clear()
    rows.batch.step({})
    # The schema's own text and the short module are pooled; 3 of 4 rows import the long one.
    assert calls.count((1, len(LONG.strip()))) == engine._adapter.num_layers
    assert len([call for call in calls if call[0] == 1]) <= 3 * engine._adapter.num_layers


def test_a_segment_cut_in_two_is_still_shared(calls):
    """One row computes its first tokens again."""
    engine = batch_engine()
    rows = Rows(engine)
    rows.join('<prompt schema="t"><x/><w/>a</prompt>', repair="link:3")
    rows.join('<prompt schema="t"><x/><w/>b</prompt>')
    length = engine.plan('<prompt schema="t"><x/><w/>b</prompt>').runs[1].length
    calls.clear()
    rows.batch.step({})
    assert calls.count((1, length - 3)) == engine._adapter.num_layers


def storages():
    """Bytes of all tensors that are alive, each storage once."""
    gc.collect()
    tensors = [each for each in gc.get_objects() if issubclass(type(each), torch.Tensor)]
    return sum({each.untyped_storage().data_ptr(): each.untyped_storage().nbytes() for each in tensors}.values())


@pytest.mark.parametrize("layout", ["reserved", "compact"])
def test_memory_is_one_copy_and_the_tails(layout):
    engine = byte_engine(layout=layout, max_position_embeddings=4096)
    copy = engine.load_schema(SCHEMA).num_tokens * engine._adapter.bytes_per_token
    assert engine.store.num_bytes == copy
    before = storages()
    batch, held = joined(engine, prompts())
    found = batch.step({})
    assert batch.num_bytes <= 0.1 * copy + ROWS * 32 * engine._adapter.bytes_per_token
    for step in range(40):
        chosen = {row: int(each[-1].argmax()) for row, each in found.items()}
        peak = [batch.num_bytes]
        if step % 8 == 0:
            # All tensors that are alive at the end of a pass, and not only those that the batch knows of.
            hook = engine.model.lm_head.register_forward_hook(lambda *_, peak=peak: peak.append(storages() - before))
        found = batch.step(chosen)
        hook.remove()
        tails = ROWS * (33 + step) * engine._adapter.bytes_per_token
        logits = 2 * sum(each.nbytes for each in found.values())
        assert copy + max(peak) <= 1.1 * (copy + tails) + logits
    for row in list(found):
        batch.leave(row)
    assert batch.num_bytes == 0 and len(held) == ROWS


def test_a_quantised_store_gives_rows_what_it_gives_each_alone():
    engine = paper_engine(
        tiny_llama(initializer_range=0.2, max_position_embeddings=4096),
        byte_tokenizer(),
        store=StoreConfig(codec="int8", disk_bytes=0),
    )
    engine.load_schema(SCHEMA)
    rows = Rows(engine)
    for prompt in prompts()[:3]:
        rows.join(prompt)
    for _ in range(3):
        rows.step()


def test_ends_of_turns_within_a_conversation_hide_nothing():
    engine = byte_engine(initializer_range=0.2)
    talks = [
        Prompt(
            messages=[
                {"role": "user", "content": text},
                {"role": "assistant", "content": "so"},
                {"role": "user", "content": "?"},
            ]
        )
        for text in ("a", "a longer one")
    ]
    alone = [engine.generate(talk, max_new_tokens=5).token_ids for talk in talks]
    assert [done.token_ids for done in engine.generate_batch(talks, max_new_tokens=5)] == alone
