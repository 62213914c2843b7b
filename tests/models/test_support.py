"""Models that would be answered wrongly are refused before anything is encoded."""

from __future__ import annotations

from typing import Any

import pytest
import transformers
from transformers import AutoModelForCausalLM, MistralConfig, Qwen2Config, T5Config, T5ForConditionalGeneration

from promptcache.errors import UnsupportedModelError
from promptcache.models.support import refuse_unsupported
from promptcache.runtime.encoder import ModuleEncoder
from tests.families import FAMILIES, family_model
from tests.paper import paper_engine
from tests.tiny import VOCAB_SIZE, byte_tokenizer, tiny_llama

SMALL: dict[str, Any] = {
    "vocab_size": VOCAB_SIZE,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
}
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("LlamaConfig", {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}}, "frequencies"),
    (
        "Phi3Config",
        {
            "rope_parameters": {
                "rope_type": "longrope",
                "rope_theta": 1e4,
                "short_factor": [1.0] * 8,
                "long_factor": [2.0] * 8,
                "original_max_position_embeddings": 64,
            },
            "max_position_embeddings": 256,
            "pad_token_id": 0,
        },
        "frequencies",
    ),
    ("MambaConfig", {"state_size": 4}, "recurrent"),
    (
        "JambaConfig",
        {
            "attn_layer_period": 2,
            "attn_layer_offset": 1,
            "num_experts": 2,
            "num_experts_per_tok": 1,
            "mamba_d_state": 4,
        },
        "recurrent",
    ),
    (
        "Qwen3NextConfig",
        {"layer_types": ["linear_attention", "full_attention"], "num_experts": 2, "num_experts_per_tok": 1},
        "recurrent",
    ),
    ("DeepseekV3Config", {"q_lora_rank": 8, "kv_lora_rank": 8, "n_routed_experts": 8, "n_group": 2}, "MLA"),
    ("Gemma3nTextConfig", {"num_kv_shared_layers": 1}, "another layer"),
    (
        "Llama4TextConfig",
        {"layer_types": ["chunked_attention", "full_attention"], "num_local_experts": 2, "pad_token_id": 0},
        "neither full nor sliding",
    ),
    ("GPTNeoConfig", {"num_layers": 2, "attention_types": [[["global", "local"], 1]], "num_heads": 2}, "slots"),
    ("Gemma3TextConfig", {"use_bidirectional_attention": True}, "later ones"),
    (
        "Qwen2Config",
        {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 3, 3]}},
        "three dimensions",
    ),
]


@pytest.fixture(autouse=True)
def nothing_is_encoded(monkeypatch):
    monkeypatch.setattr(ModuleEncoder, "encode", lambda *_: pytest.fail("something was encoded"))


@pytest.mark.parametrize(
    ("config", "settings", "reason"), REFUSED, ids=lambda value: value if isinstance(value, str) else ""
)
def test_refused(config, settings, reason):
    found = getattr(transformers, config)(**{**SMALL, **settings})
    model = AutoModelForCausalLM.from_config(found).eval()
    for layout in ("reserved", "compact"):
        with pytest.raises(UnsupportedModelError, match=reason) as caught:
            paper_engine(model, byte_tokenizer(), layout=layout)
        assert caught.value.hint and type(model).__name__ in str(caught.value)


def test_an_encoder_decoder_is_refused():
    model = T5ForConditionalGeneration(
        T5Config(vocab_size=VOCAB_SIZE, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2)
    )
    with pytest.raises(UnsupportedModelError, match="encoder-decoder"):
        paper_engine(model, byte_tokenizer())


@pytest.mark.parametrize("name", FAMILIES)
def test_layouts_and_paths_that_a_family_cannot_do(name):
    family, model = FAMILIES[name], family_model(name)
    for layout in {"reserved", "compact"} - set(family.layouts):
        other, *_ = family.layouts
        with pytest.raises(UnsupportedModelError) as caught:
            paper_engine(model, byte_tokenizer(), layout=layout)
        assert f"layout='{other}'" in (caught.value.hint or "")
        engine = paper_engine(model, byte_tokenizer(), layout=other)
        with pytest.raises(UnsupportedModelError):
            engine.load_schema('<schema name="s">text</schema>', layout=layout)
    layout = family.layouts[0]
    assert paper_engine(model, byte_tokenizer(), layout=layout).attention == family.paths[0]
    if "segments" not in family.paths:
        with pytest.raises(UnsupportedModelError, match="where they lie") as caught:
            paper_engine(model, byte_tokenizer(), layout=layout, attention="segments")
        assert "assembled" in (caught.value.hint or "")


def test_a_window_that_the_configuration_does_not_tell_is_refused():
    model = AutoModelForCausalLM.from_config(Qwen2Config(**SMALL)).eval()
    model.model.layers[1].self_attn.sliding_window = 4
    with pytest.raises(UnsupportedModelError, match="layer 1 has a window of 4 positions"):
        paper_engine(model, byte_tokenizer())


def test_what_has_none_of_it_is_taken():
    refuse_unsupported(tiny_llama())
    refuse_unsupported(AutoModelForCausalLM.from_config(MistralConfig(**SMALL, sliding_window=None)))
    refuse_unsupported(AutoModelForCausalLM.from_config(Qwen2Config(**SMALL)))
