"""How far back each layer sees, as a model's configuration says it, and the masks that say it to the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from promptcache.errors import UnsupportedModelError

Widths = tuple[int | None, ...]
"""For each layer how many positions a token sees, itself included; None for all."""

Mask = torch.Tensor | dict[str, torch.Tensor]
"""What transformers takes for `attention_mask`: additive [1, 1, queries, keys], or one such mask for each layer type in
families whose layers differ. These lose their windows without a word where they get one mask for all."""


def find_windows(config: Any) -> Widths:
    """The windows of a text configuration: of the layers typed `sliding_attention`, else of all layers."""
    width = getattr(config, "sliding_window", None)
    layers = int(config.num_hidden_layers)
    if not width or getattr(config, "use_sliding_window", True) is False:
        return (None,) * layers
    types = getattr(config, "layer_types", None)
    return tuple(int(width) if kind == "sliding_attention" else None for kind in types) if types else (width,) * layers


def refuse_untold_windows(model: Any, said: Sequence[int | None], known: Widths) -> None:
    """Raises UnsupportedModelError for a layer that says it has a window (None where it says nothing) other than the
    one known: our masks would then take the place of the right ones."""
    for layer, (its_own, ours) in enumerate(zip(said, known, strict=True)):
        if its_own is not None and its_own != ours:
            raise UnsupportedModelError(
                f"{type(model).__name__}: layer {layer} has a window of {its_own} positions, and the configuration "
                f"says {ours or 'none'}",
                hint="set sliding_window and layer_types of the configuration as the layers have it",
            )


def mask_by_layer(config: Any, windows: Widths, make: Callable[[int | None], torch.Tensor]) -> Mask:
    """The mask argument; `make(window)` gives the mask of layers with that window."""
    if len(set(windows)) == 1:
        return make(windows[0])
    return {kind: make(window) for kind, window in dict(zip(config.layer_types, windows, strict=True)).items()}
