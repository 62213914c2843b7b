"""Linear layers whose weights are laid out once for few rows: an option for CPUs."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn
from torch.nn.functional import linear
from transformers import PreTrainedModel

from promptcache.errors import RequestError

_MOST_ROWS = 96
"""Up to so many rows the packed weights are faster, above they are not (measured on two AVX2 cores: 1.2 to 2.5 times as
fast for 1 to 64 rows, equal near 128)."""


class PrepackedLinear(nn.Module):
    """Shares a linear layer's weights and holds a copy of them in oneDNN's own order."""

    def __init__(self, stock: nn.Linear) -> None:
        super().__init__()
        self.weight, self.bias = stock.weight, stock.bias
        self._packed = torch.ops.mkldnn._reorder_linear_weight(stock.weight.detach(), 32)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """[..., in_features] to [..., out_features]."""
        if states.numel() > _MOST_ROWS * states.shape[-1]:
            return linear(states, self.weight, self.bias)
        packed: torch.Tensor = torch.ops.mkldnn._linear_pointwise(states, self._packed, self.bias, "none", [], "")
        return packed


def prepacked(model: PreTrainedModel) -> PreTrainedModel:
    """A second model of the same parts, its linear layers excepted; the given one stays as it is. Takes as much memory
    again as the weights of those layers.

    Raises RequestError where weights are not float32 on the CPU, or torch has no oneDNN.
    """
    has_onednn: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    if model.dtype != torch.float32 or model.device.type != "cpu" or not has_onednn:
        raise RequestError(
            f"prepack is for float32 weights on a CPU with oneDNN, and this model is {model.dtype} on {model.device}",
            hint="leave prepack out",
        )
    shared: dict[int, Any] = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    with torch.no_grad():
        for module in model.modules():
            if type(module) is nn.Linear:
                shared[id(module)] = PrepackedLinear(module)
            elif not any(module.children()):
                shared[id(module)] = module
    made: PreTrainedModel = copy.deepcopy(model, shared)
    return made
