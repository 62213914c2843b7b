"""Models whose states cannot be reused rightly are refused at load, with the reason and what would work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from transformers import PreTrainedModel

from promptcache.errors import UnsupportedModelError


def refuse_unsupported(model: PreTrainedModel) -> None:
    """Raises UnsupportedModelError where a property of the model would make reused states wrong."""
    config = model.config.get_text_config()
    for found, reason, hint in _REASONS:
        if found(model, config):
            raise UnsupportedModelError(f"{type(model).__name__} {reason}", hint=hint)


def find_max_positions(config: Any) -> int | None:
    """How many positions the model has; None where its configuration names no limit (BLOOM)."""
    for name in ("max_position_embeddings", "max_seq_len"):
        if isinstance(found := getattr(config, name, None), int):
            return found
    return None


def find_eos_ids(model: PreTrainedModel) -> frozenset[int]:
    """Tokens that end a reply, by generation config and config."""
    found: set[int] = set()
    for config in (model.generation_config, model.config):
        ids = getattr(config, "eos_token_id", None)
        found |= set(ids) if isinstance(ids, list | tuple) else set() if ids is None else {int(ids)}
    return frozenset(found)


def _recurrent(model: PreTrainedModel, config: Any) -> bool:
    kinds = set(getattr(config, "layer_types", None) or ())
    return bool(getattr(model, "_is_stateful", False)) or not kinds.isdisjoint(
        ("linear_attention", "hybrid", "hybrid_sliding", "conv", "moe")
    )


def _other_layers(model: PreTrainedModel, config: Any) -> bool:
    kinds = set(getattr(config, "layer_types", None) or ())
    return not kinds <= {"full_attention", "sliding_attention"}


def _rope_settings(config: Any) -> list[dict[str, Any]]:
    rope = getattr(config, "rope_parameters", None) or {}
    return [rope, *(value for value in rope.values() if isinstance(value, dict))]


def _moving_frequencies(model: PreTrainedModel, config: Any) -> bool:
    return any(settings.get("rope_type") in ("dynamic", "longrope") for settings in _rope_settings(config))


def _positions_in_three(model: PreTrainedModel, config: Any) -> bool:
    return any("mrope_section" in settings for settings in _rope_settings(config))


def _sees_ahead(model: PreTrainedModel, config: Any) -> bool:
    return not getattr(config, "is_causal", True) or bool(getattr(config, "use_bidirectional_attention", False))


_ATTENTION_ONLY = "use a model in which every layer is attention with keys and values of its own"

_REASONS: tuple[tuple[Callable[[PreTrainedModel, Any], bool], str, str], ...] = (
    (
        lambda model, config: bool(getattr(model.config, "is_encoder_decoder", False)),
        "is an encoder-decoder; its decoder's states depend on the encoder's input",
        "use a decoder-only model",
    ),
    (
        _recurrent,
        "has recurrent layers (state space, linear attention or a mixture with them), whose state sums up all that was "
        "read and cannot be cut into modules",
        _ATTENTION_ONLY,
    ),
    (
        lambda model, config: getattr(config, "kv_lora_rank", None) is not None,
        "compresses keys and values into a latent that is shared by all heads (MLA), which is not proved here",
        "use a model with multi-head, grouped-query or multi-query attention",
    ),
    (
        lambda model, config: bool(getattr(config, "num_kv_shared_layers", 0)),
        "has layers that use the keys and values of another layer",
        _ATTENTION_ONLY,
    ),
    (
        _positions_in_three,
        "numbers tokens in three dimensions (M-RoPE), where positions here are one number",
        "use a text-only model, with rope_type default, linear, llama3 or yarn",
    ),
    (
        _moving_frequencies,
        "has rotary frequencies that change with the longest position seen, so stored keys would not fit later ones",
        "use rope_type default, linear, llama3 or yarn",
    ),
    (
        lambda model, config: config.model_type == "gpt_neo",
        "has local layers that count slots of the cache instead of positions, whatever mask they are given",
        "use GPT-2, GPT-J or GPT-NeoX",
    ),
    (
        _other_layers,
        "has layers that are neither full nor sliding-window attention",
        "use a model whose layers are of these two kinds",
    ),
    (_sees_ahead, "lets tokens see later ones, so a module's states depend on what follows it", "use a causal model"),
)
