"""Linear layers for few rows on a CPU, as requests with reuse and decode steps have them: MKL's product of a batch is
faster there than its plain one, which leaves a thread idle for one row."""

from __future__ import annotations

import copy
import logging
from functools import lru_cache
from typing import Any, TypeGuard

import torch
from torch import nn
from torch.nn.functional import linear
from transformers import PreTrainedModel

from promptcache.errors import RequestError

logger = logging.getLogger(__name__)

_SPLIT_ROWS, _PACKED_ROWS = 256, 128
"""Up to so many. Measured with SmolLM2's layers on two AVX2 cores, 1 / 4 / 32 / 128 / 256 rows: weights in pieces take
0.73 / 0.68 / 0.80 / 0.83 / 0.93 of the stock layers' time, packed ones 0.74 / 0.51 / 0.60 / 0.78 / 0.94; pieces on one
thread gain nothing."""

_HOOKS = (
    "_forward_hooks",
    "_forward_hooks_always_called",
    "_forward_hooks_with_kwargs",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
)


class SplitLinear(nn.Module):
    """Shares a linear layer's weights, and multiplies few rows by pieces of them side by side, as a batch."""

    def __init__(self, stock: nn.Linear) -> None:
        super().__init__()
        self.weight, self.bias = stock.weight, stock.bias
        for name in _HOOKS:
            setattr(self, name, getattr(stock, name))

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """[..., in_features] to [..., out_features]."""
        width, out = states.shape[-1], len(self.weight)
        rows, pieces = states.numel() // width, _pieces(out, torch.get_num_threads())
        if not 0 < rows <= _SPLIT_ROWS or pieces == 1:
            return linear(states, self.weight, self.bias)
        given = states.reshape(1, rows, width).expand(pieces, -1, -1)
        weights = self.weight.view(pieces, -1, width).transpose(1, 2)
        if self.bias is None:
            found = torch.bmm(given, weights)
        else:
            found = torch.baddbmm(self.bias.view(pieces, 1, -1), given, weights)
        return found.transpose(0, 1).reshape(*states.shape[:-1], out)


class PackedLinear(SplitLinear):
    """Holds a copy of the weights in oneDNN's own order besides, which is faster for several rows."""

    def __init__(self, stock: nn.Linear) -> None:
        super().__init__(stock)
        self._packed = torch.ops.mkldnn._reorder_linear_weight(stock.weight.detach(), 32)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """See `SplitLinear`."""
        if not 1 < states.numel() // states.shape[-1] <= _PACKED_ROWS:
            return super().forward(states)
        packed: torch.Tensor = torch.ops.mkldnn._linear_pointwise(states, self._packed, self.bias, "none", [], "")
        return packed


@lru_cache
def _pieces(out_features: int, threads: int) -> int:
    """The fewest equal pieces from two to four a thread, one where there are none."""
    return next((n for n in range(2 * threads, 4 * threads + 1) if out_features % n == 0), 1) if threads > 1 else 1


def for_few_rows(model: PreTrainedModel, *, prepack: bool = False) -> PreTrainedModel:
    """A second model of the same parts, its linear layers excepted, or the given one where nothing is gained: it stays
    as it is in any case. With `prepack` layers are packed, which takes as much memory again as their weights. For the
    default model this takes 25 ms, 300 ms packed.

    Raises RequestError for `prepack` where weights are not float32 on the CPU, or torch has no oneDNN.
    """
    takes = model.dtype == torch.float32 and model.device.type == "cpu"
    has_onednn: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    if prepack and not (takes and has_onednn):
        raise RequestError(
            f"prepack is for float32 weights on a CPU with oneDNN, and this model is {model.dtype} on {model.device}",
            hint="leave prepack out",
        )
    has_mkl: bool = torch.backends.mkl.is_available()  # type: ignore[no-untyped-call]
    if not takes or not (prepack or has_mkl):
        return model
    made = PackedLinear if prepack else SplitLinear
    shared: dict[int, Any] = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    with torch.no_grad():
        for module in model.modules():
            if _is_plain(module):
                shared[id(module)] = made(module)
            elif not any(module.children()):
                shared[id(module)] = module
            # Who watches the caller's model sees our passes as well.
            shared |= {id(hooks): hooks for hooks in (getattr(module, name) for name in _HOOKS)}
    try:
        ours: PreTrainedModel = copy.deepcopy(model, shared)
    except Exception as fault:  # what an owner hung on the model may be anything
        if prepack:
            raise RequestError(f"prepack: this model cannot be copied: {fault}", hint="leave prepack out") from fault
        logger.info("linear layers stay as they are, for this model cannot be copied: %s", fault)
        return model
    return ours


def _is_plain(module: nn.Module) -> TypeGuard[nn.Linear]:
    """Whether it is a linear layer of torch, with nothing added to it."""
    if type(module) is not nn.Linear:
        return False
    weight = module.weight
    return weight.dtype == torch.float32 and weight.is_cpu and weight.is_contiguous() and "forward" not in vars(module)
