"""Models that would be answered wrongly are refused before anything is encoded."""

from __future__ import annotations

import pytest
from transformers import (
    AutoModelForCausalLM,
    BloomConfig,
    FalconConfig,
    LlamaConfig,
    MistralConfig,
    MptConfig,
    Qwen2Config,
    T5Config,
    T5ForConditionalGeneration,
)

from promptcache import PromptCache
from promptcache.errors import UnsupportedModelError
from promptcache.models.support import refuse_unsupported
from tests.tiny import VOCAB_SIZE, byte_tokenizer, tiny_llama

SMALL = {
    "vocab_size": VOCAB_SIZE,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
}


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (MistralConfig(**SMALL, sliding_window=8), "sliding window"),
        (Qwen2Config(**SMALL, use_sliding_window=True, sliding_window=8, max_window_layers=1), "sliding window"),
        (BloomConfig(vocab_size=VOCAB_SIZE, hidden_size=32, n_layer=2, n_head=2), "ALiBi"),
        (MptConfig(vocab_size=VOCAB_SIZE, d_model=32, n_layers=2, n_heads=2), "ALiBi"),
        (
            FalconConfig(vocab_size=VOCAB_SIZE, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, alibi=True),
            "ALiBi",
        ),
        (
            LlamaConfig(**SMALL, rope_parameters={"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}),
            "frequencies",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else value.model_type,
)
def test_refused(config, reason):
    model = AutoModelForCausalLM.from_config(config).eval()
    with pytest.raises(UnsupportedModelError, match=reason) as caught:
        PromptCache(model, byte_tokenizer())
    assert caught.value.hint


def test_an_encoder_decoder_is_refused():
    model = T5ForConditionalGeneration(
        T5Config(vocab_size=VOCAB_SIZE, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2)
    )
    with pytest.raises(UnsupportedModelError, match="encoder-decoder"):
        PromptCache(model, byte_tokenizer())


def test_what_has_none_of_it_is_taken():
    refuse_unsupported(tiny_llama())
    refuse_unsupported(AutoModelForCausalLM.from_config(MistralConfig(**SMALL, sliding_window=None)))
    refuse_unsupported(AutoModelForCausalLM.from_config(Qwen2Config(**SMALL)))
