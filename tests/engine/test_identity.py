"""Stored states serve exactly what they were made for: one thing changed at a time is a miss."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from promptcache import PromptCache, StoreConfig
from promptcache.layout.encodings import key as key_module
from promptcache.models.fingerprint import model_fingerprint, with_files
from promptcache.store import header as header_module
from tests.engine.test_counts import SCHEMA, HookCount
from tests.paper import paper_engine
from tests.tiny import byte_tokenizer, tiny_llama


def encoded(folder: Path, model: Any = None, tokenizer: Any = None, **options: Any) -> int:
    """Tokens that loading the schema runs through the model."""
    config = StoreConfig(path=folder, codec=options.pop("codec", "none"))
    made = paper_engine(model or tiny_llama(), tokenizer or byte_tokenizer(), store=config, **options)
    with HookCount(made) as hook:
        loaded = made.load_schema(SCHEMA)
    assert hook.tokens == loaded.encoded_tokens
    return loaded.encoded_tokens


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    assert encoded(tmp_path) > 0
    return tmp_path


def test_nothing_changed_is_a_hit(folder):
    assert encoded(folder) == 0


def scaled(name: str) -> Callable[[], Any]:
    def make() -> Any:
        model = tiny_llama()
        with torch.no_grad():
            model.get_parameter(name).mul_(1.01)
        return model

    return make


@pytest.mark.parametrize("name", [name for name, _ in tiny_llama().named_parameters()])
def test_a_weight_scaled_in_place(folder, name):
    assert encoded(folder, scaled(name)()) > 0


@pytest.mark.parametrize(
    "model",
    [
        lambda: tiny_llama(seed=1),
        lambda: tiny_llama(rope_parameters={"rope_type": "default", "rope_theta": 9999.0}),
        lambda: tiny_llama(rms_norm_eps=1e-5),
        lambda: tiny_llama().to(torch.bfloat16),
    ],
    ids=["weights", "rope_theta", "config", "dtype"],
)
def test_another_model(folder, model):
    assert encoded(folder, model()) > 0


def test_another_tokenizer(folder):
    added = byte_tokenizer()
    added.add_tokens(["zzz"])
    template = byte_tokenizer(template="{% for m in messages %}{{ m['content'] }}{% endfor %}")
    for tokenizer in (added, template, byte_tokenizer(bos=True)):
        assert encoded(folder, tokenizer=tokenizer) > 0


def test_another_codec(folder):
    assert encoded(folder, codec="bf16") > 0
    assert encoded(folder, codec="int8") > 0
    assert encoded(folder, codec="int8") == 0


def test_another_namespace(folder, monkeypatch):
    class Tenant(key_module.KeyContext):
        def __init__(self, **fields: Any) -> None:
            super().__init__(**{**fields, "namespace": "tenant"})

    monkeypatch.setattr("promptcache.engine.KeyContext", Tenant)
    assert encoded(folder) > 0


def test_another_format_version(folder, monkeypatch):
    for module in (key_module, header_module):
        monkeypatch.setattr(module, "FORMAT_VERSION", key_module.FORMAT_VERSION + 1)
    monkeypatch.setattr(key_module.KeyContext.__init__, "__defaults__", ("none", "", key_module.FORMAT_VERSION))
    assert encoded(folder) > 0


def test_a_text_that_differs_by_a_space_is_encoded_again_with_what_follows_it(folder):
    made = paper_engine(tiny_llama(), byte_tokenizer(), store=folder)
    changed = SCHEMA.replace("first ", "first  ").replace(' name="a"', ' name="a" xml:space="preserve"', 1)
    again = made.load_schema(changed)
    behind = sum(
        len(made.schemas["s"].layout.passes[number].ids)
        for number in {s.encoding_pass for s in again.layout.segments.values() if s.owner in ("a", "b")}
    )
    assert again.encoded_tokens == behind < sum(len(each.ids) for each in again.layout.passes)


def test_a_miss_says_why_at_debug_level(folder, caplog):
    with caplog.at_level(logging.DEBUG, logger="promptcache.store"):
        encoded(folder, tiny_llama(seed=1))
        assert "schema s is stored for another model" in caplog.text
        encoded(folder, tokenizer=byte_tokenizer(bos=True))
        assert "for another tokenizer" in caplog.text
        made = paper_engine(tiny_llama(), byte_tokenizer(), store=folder)
        made.load_schema(SCHEMA.replace("second", "other"))
        assert "with other tokens or positions" in caplog.text


def test_a_rewrite_of_the_files_is_noticed_whatever_it_changed(tmp_path):
    model = tmp_path / "model"
    tiny_llama().save_pretrained(model)
    byte_tokenizer().save_pretrained(model)
    weights, before = model / "model.safetensors", with_files("f", model)
    assert with_files("f", model) == before != with_files("g", model)
    times = weights.stat()
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1  # the last element of a tensor is seldom among the sampled ones
    weights.write_bytes(data)
    rewritten = with_files("f", model)
    assert rewritten != before
    # Also where the time of writing was set back, as far as samples see.
    os.utime(weights, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert with_files("f", model) != before
    (model / "adapter_config.json").write_text("{}")
    assert with_files("f", model) != rewritten


def test_a_rewritten_model_is_a_miss(tmp_path):
    model, store = tmp_path / "model", tmp_path / "store"
    tiny_llama().save_pretrained(model)
    byte_tokenizer().save_pretrained(model)

    def tokens() -> int:
        return PromptCache.from_pretrained(str(model), store=store).load_schema(SCHEMA).encoded_tokens

    assert tokens() > 0
    assert tokens() == 0
    os.utime(model / "model.safetensors", ns=(1, 1))
    assert tokens() > 0


class Lora(torch.nn.Module):
    """What adapter libraries put in a linear layer's place, as far as identity goes."""

    def __init__(self, base: torch.nn.Linear, scale: float) -> None:
        super().__init__()
        self.base = base
        self.low = torch.nn.Parameter(torch.full((1, base.in_features), scale))
        self.active_adapters = ["a"]
        self.scaling = {"a": 1.0}
        self.disable_adapters = False

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        found = self.base(states)
        if self.disable_adapters:
            return found
        return found + self.scaling["a"] * (states * self.low).sum(-1, keepdim=True)


def adapted(scale: float) -> Any:
    model = tiny_llama()
    attention = model.model.layers[0].self_attn
    attention.k_proj = Lora(attention.k_proj, scale)
    return model.eval()


def test_adapters_of_one_name_are_told_apart(folder):
    assert encoded(folder, adapted(0.1)) > 0
    assert encoded(folder, adapted(0.1)) == 0
    assert encoded(folder, adapted(0.2)) > 0
    for change in ({"disable_adapters": True}, {"scaling": {"a": 0.5}}):
        model = adapted(0.1)
        for name, value in change.items():
            setattr(model.model.layers[0].self_attn.k_proj, name, value)
        assert model_fingerprint(model) != model_fingerprint(adapted(0.1))
        assert encoded(folder, model) > 0


def test_in_compact_only_the_changed_module_is_encoded_again(tmp_path):
    def loaded(text: str) -> Any:
        return paper_engine(tiny_llama(), byte_tokenizer(), layout="compact", store=tmp_path).load_schema(text)

    loaded(SCHEMA)
    changed = SCHEMA.replace("first ", "first  ").replace(' name="a"', ' name="a" xml:space="preserve"', 1)
    again = loaded(changed)
    assert again.encoded_tokens == sum(
        len(again.layout.passes[number].ids)
        for number in {s.encoding_pass for s in again.layout.stored if s.owner == "a"}
    )
