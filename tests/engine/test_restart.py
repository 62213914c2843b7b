"""States outlive their engine and their process, and answer as they did."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from promptcache import PromptCache, StoreConfig
from promptcache.config import store_home
from promptcache.store.mapped import MappedArena
from tests.engine.test_counts import PROMPTS, SCHEMA, HookCount
from tests.paper import paper_engine
from tests.tiny import byte_tokenizer, tiny_llama

ROOT = Path(__file__).resolve().parents[2]
PROMPT = PROMPTS[0]


def engine(store: Path | StoreConfig, **options: object) -> PromptCache:
    return paper_engine(tiny_llama(), byte_tokenizer(), store=store, **options)


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.safetensors"))


@pytest.mark.parametrize("attention", ["segments", "assembled"])
@pytest.mark.parametrize("codec", ["none", "bf16", "int8"])
def test_the_next_engine_runs_no_reused_token_and_answers_the_same(tmp_path, codec, attention):
    config = StoreConfig(path=tmp_path, codec=codec)
    first = engine(config, attention=attention)
    assert first.load_schema(SCHEMA).encoded_tokens > 0
    expected = [first.logits(prompt) for prompt in PROMPTS]
    second = engine(config, attention=attention)
    with HookCount(second) as hook:
        loaded = second.load_schema(SCHEMA)
    assert hook.tokens == loaded.encoded_tokens == loaded.encode_ms == 0
    for prompt, logits in zip(PROMPTS, expected, strict=True):
        with HookCount(second) as hook:
            usage = second.generate(prompt, max_new_tokens=1).usage
        assert hook.tokens == usage.fresh_tokens + usage.repaired_tokens
        assert torch.equal(second.logits(prompt), logits)


def test_states_are_attended_in_the_map_as_one(tmp_path):
    engine(tmp_path).load_schema(SCHEMA)
    second = engine(tmp_path)
    second.load_schema(SCHEMA)
    second.logits(PROMPT)
    places = {block.place[0] for block in second.store.held().values()}
    assert len(places) == 1 and isinstance(next(iter(places)), MappedArena)


def test_a_request_reads_only_what_it_imports(tmp_path):
    engine(tmp_path).load_schema(SCHEMA)
    second = engine(tmp_path)
    second.load_schema(SCHEMA)
    assert len(second.store) == 0
    second.logits('<prompt schema="s"><b/>?</prompt>')
    assert {len(states.keys[0][0]) for states in second.store.held().values()} == {len("Intro. "), len("second")}


_SCRIPT = """
import hashlib, json, sys
from promptcache import PromptCache
from tests.engine.test_counts import PROMPTS, SCHEMA, HookCount
engine = PromptCache.from_pretrained(sys.argv[1], repair="none", store=sys.argv[2])
with HookCount(engine) as hook:
    engine.load_schema(SCHEMA)
loading = hook.tokens
with HookCount(engine) as hook:
    done = engine.generate(PROMPTS[0], max_new_tokens=5)
digest = hashlib.sha256(engine.logits(PROMPTS[0]).numpy().tobytes()).hexdigest()
print(json.dumps([loading, hook.tokens - 4, done.usage.fresh_tokens, done.token_ids, digest]))
"""


def test_a_new_process_answers_from_the_store(tmp_path):
    model = tmp_path / "model"
    tiny_llama().save_pretrained(model)
    byte_tokenizer().save_pretrained(model)
    answers = []
    for seed in ("0", "1"):
        done = subprocess.run(
            [sys.executable, "-c", _SCRIPT, model, tmp_path / "store"],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        answers.append(json.loads(done.stdout))
    (encoded, first, fresh, *answer), (again, second, _, *repeated) = answers
    assert encoded > 0 and again == 0
    assert first == second == fresh
    assert answer == repeated


def test_damage_is_mended_by_encoding_again(tmp_path, caplog):
    first = engine(tmp_path)
    first.load_schema(SCHEMA)
    expected = first.logits(PROMPT)
    [path] = files(tmp_path)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    second = engine(tmp_path)
    second.load_schema(SCHEMA)
    with caplog.at_level(logging.INFO):
        assert torch.equal(second.logits(PROMPT), expected)
        assert torch.equal(second.logits(PROMPTS[4]), first.logits(PROMPTS[4]))
    assert "damaged" in caplog.text and "are encoded" in caplog.text
    third = engine(tmp_path)
    third.load_schema(SCHEMA)
    with HookCount(third) as hook:
        assert torch.equal(third.logits(PROMPT), expected)
    assert hook.tokens == third.plan(PROMPT).count("fresh")


def test_a_folder_that_vanishes_under_a_running_engine(tmp_path):
    store = tmp_path / "store"
    engine(store).load_schema(SCHEMA)
    second = engine(store)
    second.load_schema(SCHEMA)
    expected = second.logits(PROMPTS[2])
    for path in store.iterdir():
        path.unlink()
    store.rmdir()
    assert torch.equal(second.logits(PROMPTS[2]), expected)
    with HookCount(second) as hook:
        second.logits(PROMPT)
    assert hook.tokens > second.plan(PROMPT).count("fresh")
    assert len(files(store)) == 1


@pytest.mark.parametrize("left", [0, 1, 0.5, -1])
def test_a_file_that_is_cut_under_a_running_engine(tmp_path, left, caplog):
    engine(tmp_path).load_schema(SCHEMA)
    second = engine(tmp_path)
    second.load_schema(SCHEMA)
    expected = second.logits(PROMPT)
    size = files(tmp_path)[0].stat().st_size
    os.truncate(files(tmp_path)[0], int(size * left) if isinstance(left, float) else left % size)
    assert torch.equal(second.logits(PROMPT), expected)
    assert "has changed" in caplog.text


def test_where_nothing_is_kept_on_disk(tmp_path, monkeypatch):
    monkeypatch.setenv("PROMPTCACHE_STORE", str(tmp_path / "store"))
    engine(StoreConfig(disk_bytes=0)).load_schema(SCHEMA)
    assert list(tmp_path.iterdir()) == []
    for named in ("off", "OFF", StoreConfig(path="off")):
        assert list(engine(named).store.stats().tiers) == ["host"]
    assert store_home(" a") == Path(" a").absolute()  # a folder's name is taken as it is
    monkeypatch.setenv("PROMPTCACHE_STORE", "off")
    made = engine(StoreConfig())
    made.load_schema(SCHEMA)
    assert list(made.store.stats().tiers) == ["host"]


def test_the_disk_is_used_by_default_in_the_cache_folder(tmp_path, monkeypatch):
    monkeypatch.delenv("PROMPTCACHE_STORE")
    monkeypatch.setenv("PROMPTCACHE_HOME", str(tmp_path))
    made = paper_engine(tiny_llama(), byte_tokenizer())
    assert list(tmp_path.iterdir()) == []
    made.load_schema(SCHEMA)
    assert len(files(tmp_path / "store")) == 1
    assert list(made.store.stats().tiers) == ["host", "disk"]


def test_unloading_frees_memory_and_keeps_files(tmp_path):
    made = engine(tmp_path)
    made.load_schema(SCHEMA)
    made.unload_schema("s")
    assert made.store.num_bytes == 0 and len(made.store) == 0
    assert made.load_schema(SCHEMA).encoded_tokens == 0
