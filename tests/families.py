"""Tiny random models of the families that people run, one row each."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any

import torch
import transformers
from transformers import AutoModelForCausalLM

from tests.tiny import VOCAB_SIZE

MAX_POSITIONS = 512
_SHAPE = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": MAX_POSITIONS,
}
_OLD_SHAPE = {"n_layer": 3, "n_head": 4}
_LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 1e4,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
_YARN = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 128}
_LINEAR = {"rope_type": "linear", "rope_theta": 1e4, "factor": 4.0}


@dataclass(frozen=True)
class Family:
    """A family's tiny model, and what it is able to do.

    `positions` names what is made of them, for people. `window`: how far back its windowed layers (`windowed`) see.
    """

    config: str
    settings: dict[str, Any]
    positions: str
    layouts: tuple[str, ...] = ("reserved", "compact")
    paths: tuple[str, ...] = ("segments", "assembled")
    windows: tuple[int | None, ...] = field(default=(None, None, None))


def _row(config: str, positions: str = "rotary", **settings: Any) -> Family:
    return Family(config, {**_SHAPE, **settings}, positions)


def _windowed(config: str, windows: tuple[int | None, ...], positions: str, **settings: Any) -> Family:
    return Family(config, {**_SHAPE, **settings, "sliding_window": 16}, positions, windows=windows)


_ALTERNATING = ["sliding_attention", "full_attention", "sliding_attention"]
_ALTERNATE = (16, None, 16)

FAMILIES: dict[str, Family] = {
    "llama": _row("LlamaConfig", num_key_value_heads=4),
    "llama, grouped heads, head_dim 24": _row("LlamaConfig", head_dim=24),
    "llama, rope llama3": _row("LlamaConfig", "rotary, llama3", rope_parameters=_LLAMA3),
    "llama, rope linear": _row("LlamaConfig", "rotary, linear", rope_parameters=_LINEAR),
    "llama, rope yarn": _row("LlamaConfig", "rotary, yarn", rope_parameters=_YARN),
    "mistral": _row("MistralConfig", sliding_window=None),
    "mistral, window": _windowed("MistralConfig", (16, 16, 16), "rotary, window 16 in all layers"),
    "gemma2": Family(
        "Gemma2Config",
        {**_SHAPE, "head_dim": 24, "layer_types": _ALTERNATING, "sliding_window": 16, "query_pre_attn_scalar": 24},
        "rotary, window 16 in 2 of 3, soft cap",
        paths=("assembled",),
        windows=_ALTERNATE,
    ),
    "gemma3": _windowed(
        "Gemma3TextConfig",
        _ALTERNATE,
        "rotary, two thetas, window 16 in 2 of 3",
        head_dim=24,
        layer_types=_ALTERNATING,
        query_pre_attn_scalar=24,
        rope_parameters={
            "full_attention": {"rope_type": "default", "rope_theta": 1e6},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
        },
    ),
    "phi": _row("PhiConfig", "rotary, half of the dims", num_key_value_heads=4),
    "stablelm": _row("StableLmConfig", "rotary, a quarter of the dims"),
    "gpt_neox": Family("GPTNeoXConfig", _SHAPE, "rotary, a quarter of the dims"),
    "gptj": Family(
        "GPTJConfig",
        {**_OLD_SHAPE, "n_embd": 64, "n_inner": 96, "rotary_dim": 8, "n_positions": MAX_POSITIONS},
        "rotary, interleaved, half of the dims",
    ),
    # With 0.5, float32 alone moves some of its answers by as much as they are held to.
    "smollm3": _row("SmolLM3Config", "rotary, none in layer 3", no_rope_layers=[1, 1, 0], initializer_range=0.4),
    "qwen2": _row("Qwen2Config"),
    "qwen2, window": Family(
        "Qwen2Config",
        {**_SHAPE, "use_sliding_window": True, "sliding_window": 16, "layer_types": _ALTERNATING},
        "rotary, window 16 in 2 of 3",
        windows=_ALTERNATE,
    ),
    "qwen3": _row("Qwen3Config", head_dim=32),
    "olmo2": _row("Olmo2Config"),
    "gpt2": Family(
        "GPT2Config", {**_OLD_SHAPE, "n_embd": 64, "n_positions": MAX_POSITIONS}, "learned", layouts=("reserved",)
    ),
    "opt": Family(
        "OPTConfig",
        {**_SHAPE, "ffn_dim": 96, "word_embed_proj_dim": 64, "do_layer_norm_before": True},
        "learned",
        layouts=("reserved",),
    ),
    "falcon": Family(
        "FalconConfig",
        {**_SHAPE, "alibi": False, "multi_query": True, "new_decoder_architecture": False},
        "rotary",
        paths=("assembled",),
    ),
    "falcon, alibi": Family(
        "FalconConfig",
        {**_SHAPE, "alibi": True, "multi_query": True, "new_decoder_architecture": False},
        "ALiBi",
        layouts=("compact",),
        paths=("assembled",),
    ),
    "mpt": Family(
        "MptConfig",
        {"d_model": 64, "n_heads": 4, "n_layers": 3, "expansion_ratio": 2, "max_seq_len": MAX_POSITIONS},
        "ALiBi",
        layouts=("compact",),
        paths=("assembled",),
    ),
    "bloom": Family(
        "BloomConfig", {**_OLD_SHAPE, "hidden_size": 64}, "ALiBi", layouts=("compact",), paths=("assembled",)
    ),
    "phi3": _row("Phi3Config"),
    "starcoder2": _row("Starcoder2Config", sliding_window=None),
    "starcoder2, window": _windowed("Starcoder2Config", (16, 16, 16), "rotary, window 16 in all layers"),
    "cohere": _row("CohereConfig"),
    "granite": _row("GraniteConfig", attention_multiplier=0.25),
    "gemma": _row("GemmaConfig", head_dim=24),
    "olmo3": _windowed("Olmo3Config", _ALTERNATE, "rotary, window 16 in 2 of 3", layer_types=_ALTERNATING),
    "cohere2": _windowed(
        "Cohere2Config", _ALTERNATE, "rotary and window 16 in 2 of 3, none in 1", layer_types=_ALTERNATING
    ),
    "exaone4": _windowed("Exaone4Config", _ALTERNATE, "rotary, window 16 in 2 of 3", layer_types=_ALTERNATING),
    "glm4": _row("Glm4Config", "rotary, interleaved, half of the dims", head_dim=16),
    "codegen": Family(
        "CodeGenConfig",
        {**_OLD_SHAPE, "n_embd": 64, "n_inner": 96, "rotary_dim": 8, "n_positions": MAX_POSITIONS},
        "rotary, interleaved, half of the dims",
    ),
    "gpt_bigcode": Family(
        "GPTBigCodeConfig",
        {**_OLD_SHAPE, "n_embd": 64, "n_positions": MAX_POSITIONS},
        "learned",
        layouts=("reserved",),
    ),
}


@functools.cache
def family_model(name: str, dtype: torch.dtype = torch.float32) -> Any:
    """The row's model, random and in eval mode, made once: tests leave it as it is. See `tests.tiny.tiny_llama`."""
    family = FAMILIES[name]
    config = getattr(transformers, family.config)(
        **{
            "vocab_size": VOCAB_SIZE,
            "initializer_range": 0.5,
            "bos_token_id": None,
            "eos_token_id": None,
            "pad_token_id": None,
            **family.settings,
        }
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return AutoModelForCausalLM.from_config(config).to(dtype).eval()
