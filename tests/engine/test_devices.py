"""Whole requests of a model on a GPU, without one: every operation finds its tensors on one device.

There are no numbers here, so nothing is compared; what is right on the CPU is the other tests' matter.
"""

from __future__ import annotations

import copy

import pytest
import torch
from transformers import AutoModelForCausalLM, Gemma3TextConfig, LlamaConfig
from transformers.initialization import no_init_weights

from promptcache import PromptCache, StoreConfig
from promptcache.runtime.states import segmented
from promptcache.runtime.states.state import used_states
from tests.fake_cuda import FakeCuda, fake_cuda
from tests.paper import paper_engine
from tests.tiny import VOCAB_SIZE, byte_tokenizer

LONG = "the states of this module are attended where they lie " * 4
SCHEMA = (
    f'<schema name="s">Begin. <module name="a">{LONG}</module><module name="b">short</module>'
    '<module name="c">Say <parameter name="p" length="9"/> now.</module></schema>'
)
PROMPT, MOVED = (
    '<prompt schema="s"><a/><c p="a word"/>why?</prompt>',
    '<prompt schema="s"><c p="it"/><b/><a/>so</prompt>',
)
SHAPE = {
    "vocab_size": VOCAB_SIZE,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 1024,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
}
WINDOWS = {"sliding_window": 16, "layer_types": ["sliding_attention", "full_attention"]}
CONFIGS = {"llama": LlamaConfig(**SHAPE), "gemma3": Gemma3TextConfig(**SHAPE, **WINDOWS)}


def engine(fake: FakeCuda, model: str, dtype: torch.dtype, layers: int = 2, **options) -> PromptCache:
    config = copy.deepcopy(CONFIGS[model])
    config.num_hidden_layers = layers
    with no_init_weights(), fake.device:
        made = AutoModelForCausalLM.from_config(config, dtype=dtype).eval()
    return paper_engine(made, byte_tokenizer(), self_check=False, **options)


@pytest.mark.parametrize(
    ("model", "attention", "placement", "layout", "dtype", "gathered"),
    [
        ("llama", "segments", "device", "reserved", torch.float32, 128),
        ("llama", "segments", "host", "compact", torch.float16, 0),
        ("llama", "segments", "host", "compact", torch.bfloat16, 128),
        ("llama", "assembled", "host", "compact", torch.float16, 128),
        ("gemma3", "segments", "host", "compact", torch.bfloat16, 0),
    ],
)
def test_every_way_through_the_model(monkeypatch, model, attention, placement, layout, dtype, gathered):
    monkeypatch.setattr(segmented, "GATHERED_TOKENS", gathered)
    with fake_cuda() as fake:
        store = StoreConfig(disk_bytes=0, **({"device_bytes": 0} if placement == "host" else {}))
        made = engine(fake, model, dtype, attention=attention, layout=layout, store=store)
        made.load_schema(SCHEMA)
        lying = {states.device.type for block in made.store.held().values() for states in block.keys}
        assert lying == {"cuda" if placement == "device" else "cpu"}
        prompt = MOVED if layout == "compact" else PROMPT
        assert made.continuation_logits(prompt, [1, 2, 3], repair="link:2").device == fake.device
        assert len(made.generate(prompt, max_new_tokens=2).token_ids) == 2
        made.prepare(prompt, copies=2)
        made.generate_batch([prompt, PROMPT, "no modules"], max_new_tokens=2)
        made.session(prompt).send("More.", max_new_tokens=2)


def test_the_stand_in_has_teeth(monkeypatch):
    with fake_cuda() as fake:
        made = engine(fake, "llama", torch.float16, store=StoreConfig(device_bytes=0, disk_bytes=0))
        made.load_schema(SCHEMA)
        monkeypatch.setattr("promptcache.runtime.states.segmented.fetched", lambda views, devices: views)
        with pytest.raises(RuntimeError, match="same device"):
            made.logits(PROMPT)
        planned = made._planned(PROMPT, True)
        with made._requests.settle(planned).blocks as blocks:
            run = next(run for run in planned.plan.runs if run.kind == "reused")
            assert used_states(run, blocks, made._adapter).keys[0].device == fake.device


def test_what_a_pass_copies_to_the_device_does_not_grow_with_layers(monkeypatch):
    # Each such copy waits for all that was asked of the device before.
    monkeypatch.setattr(segmented, "GATHERED_TOKENS", 0)
    found = set()
    for layers in (2, 4):
        with fake_cuda() as fake:
            made = engine(fake, "llama", torch.float16, layers, layout="compact", store=StoreConfig(disk_bytes=0))
            made.load_schema(SCHEMA)
            fake.copies = 0
            made.generate(MOVED, max_new_tokens=3)
            found.add(fake.copies)
    assert len(found) == 1 and found.pop() <= 6
