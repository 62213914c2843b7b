"""Encoding passes that run side by side give the states that each gives alone, with fewer tokens run."""

from __future__ import annotations

import pytest
import torch

from promptcache import PromptCache, Schema, StoreConfig
from promptcache.runtime import encoder
from tests.engine.comparison import TOLERANCE
from tests.engine.test_counts import HookCount
from tests.families import FAMILIES, family_model
from tests.family_oracle import SCHEMA
from tests.paper import paper_engine
from tests.tiny import byte_tokenizer, tiny_llama

IN_MEMORY = StoreConfig(disk_bytes=0)
ENCODINGS = ["isolated", "anchored"]


def loaded(name: str, encoding: str = "isolated") -> PromptCache:
    layout = FAMILIES[name].layouts[0]
    made = PromptCache(
        family_model(name), byte_tokenizer(), layout=layout, encoding=encoding, self_check=False, store=IN_MEMORY
    )
    made.load_schema(SCHEMA)
    return made


def states(engine: PromptCache) -> list[torch.Tensor]:
    found = []
    for segment in engine.schemas["s"].layout.stored:
        block = engine.store.get(segment.key)
        assert block is not None
        found += [*block.keys, *block.values]
    return found


def examples(count: int, **options: str) -> Schema:
    return Schema.from_modules({f"m{n}": f"Example {n}." for n in range(count)}, name="s", **options)


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("name", FAMILIES)
def test_states_are_those_of_a_pass_each(name, encoding, monkeypatch):
    packed = states(loaded(name, encoding))
    for most in (0, 40):
        monkeypatch.setattr(encoder, "PACKED_TOKENS", most)
        for here, there in zip(packed, states(loaded(name, encoding)), strict=True):
            assert (here - there).abs().max() <= TOLERANCE * max(1.0, float(there.abs().max()))


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_what_many_modules_see_is_run_once(encoding):
    engine = paper_engine(tiny_llama(), byte_tokenizer(), encoding=encoding, store=IN_MEMORY)
    schema = examples(20, intro="All of these are examples. ")
    with HookCount(engine) as hook:
        made = engine.load_schema(schema)
    assert hook.tokens == made.encoded_tokens == sum(made.pass_lengths)
    intro = made.layout.passes[0].ids  # encoded for itself, and once more for all that see it
    assert made.encoded_tokens == made.num_tokens + (len(intro) if encoding == "anchored" else 0)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_no_pack_is_longer_than_the_most_and_a_longer_pass_runs_alone(encoding, monkeypatch):
    monkeypatch.setattr(encoder, "PACKED_TOKENS", 64)
    engine = paper_engine(tiny_llama(), byte_tokenizer(), encoding=encoding, store=IN_MEMORY)
    schema = examples(9, intro="Examples. ")
    long = Schema.from_modules({"long": "x" * 90, **{f"m{n}": "abc " * 4 for n in range(5)}}, name="t")
    for each in (schema, long):
        made = engine.load_schema(each)
        assert max(length for length in made.pass_lengths if length < 90) <= 64
        assert len(made.pass_lengths) < len(made.layout.passes)
    assert max(made.pass_lengths) >= 90


def test_what_is_missing_is_packed_without_the_rest():
    engine, whole = (
        paper_engine(tiny_llama(), byte_tokenizer(), encoding="anchored", store=IN_MEMORY) for _ in range(2)
    )
    schema = examples(6, intro="Examples. ")
    whole.load_schema(schema)
    engine.load_schema(schema, encode=False)
    prompt = '<prompt schema="s"><m4/><m1/>?</prompt>'
    with HookCount(engine) as hook:
        usage = engine.generate(prompt, max_new_tokens=1).usage
    intro = engine.schemas["s"].layout.passes[0].ids
    assert hook.tokens == usage.computed_tokens == usage.prompt_tokens + len(intro)
    rest = engine.load_schema(schema, replace=True)
    assert 0 < rest.encoded_tokens < sum(rest.pass_lengths)
    assert (engine.logits(prompt) - whole.logits(prompt)).abs().max() <= TOLERANCE


@pytest.mark.parametrize("name", [name for name, family in FAMILIES.items() if family.positions == "ALiBi"])
def test_a_model_that_counts_slots_runs_a_pass_each(name):
    schema = loaded(name).schemas["s"]
    assert schema.pass_lengths == tuple(len(each.ids) for each in schema.layout.passes)
