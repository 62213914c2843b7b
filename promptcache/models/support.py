"""Models whose states cannot be reused rightly yet are refused at load, with the reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from transformers import PreTrainedModel

from promptcache.errors import UnsupportedModelError


def refuse_unsupported(model: PreTrainedModel) -> None:
    """Raises UnsupportedModelError where a property of the model would make reused states wrong."""
    if getattr(model.config, "is_encoder_decoder", False):
        raise UnsupportedModelError(
            f"{type(model).__name__} is an encoder-decoder; its decoder's states depend on the encoder's input",
            hint="use a decoder-only model",
        )
    config = model.config.get_text_config()
    for found, reason, hint in _REASONS:
        if found(config):
            raise UnsupportedModelError(f"{type(model).__name__} {reason}", hint=hint)


def _window(config: Any) -> bool:
    layers = getattr(config, "layer_types", None)
    if layers:
        return "sliding_attention" in layers
    return getattr(config, "sliding_window", None) is not None


def _alibi(config: Any) -> bool:
    return config.model_type in ("bloom", "mpt") or bool(getattr(config, "alibi", False))


def _moving_frequencies(config: Any) -> bool:
    rope = getattr(config, "rope_parameters", None) or {}
    scalings = [rope, *(value for value in rope.values() if isinstance(value, dict))]
    return any(scaling.get("rope_type") in ("dynamic", "longrope") for scaling in scalings)


_REASONS: tuple[tuple[Callable[[Any], bool], str, str], ...] = (
    (
        _window,
        "has layers with a sliding window, which would count slots of the cache instead of positions",
        "use a model whose layers all attend to everything",
    ),
    (
        _alibi,
        "biases attention by the order of the cache (ALiBi) and does not look at positions",
        "use a model with rotary or learned positions",
    ),
    (
        _moving_frequencies,
        "has rotary frequencies that change with the longest position seen, so stored keys would not fit later ones",
        "use rope_type default, linear, llama3 or yarn",
    ),
)
