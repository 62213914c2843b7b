"""How a model turns its keys by position: found out from the model itself, and proved on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from transformers import PreTrainedModel

from promptcache.errors import UnsupportedModelError
from promptcache.kv.block import KVBlock
from promptcache.kv.rotation import Rotary, Rotations

_TOKENS, _SHIFT = 6, 100
_BOUND, _HALF_PRECISION_BOUND = 1e-2, 5e-2


def find_rotations(
    model: PreTrainedModel, states: Callable[[Sequence[int]], KVBlock], max_positions: int | None
) -> Rotations:
    """Each layer's rotation. `states(positions)` runs as many fixed tokens at these positions and gives their states.

    The tokens are run at two places. A layer's rotation is the one that takes its keys from the first to the second:
    one of the frequency tables that the model holds, in either pairing, or none. The bound is on the error over the
    largest key; behind the first layers it holds rounding of the whole model, whose own angles are float32.
    Raises UnsupportedModelError for a layer that none fits, as with learned positions.
    """
    shift = _SHIFT if max_positions is None else min(_SHIFT, max_positions - _TOKENS)
    here = states(range(_TOKENS))
    there = states(range(shift, shift + _TOKENS))
    candidates: list[Rotary | None] = [None, *_candidates(model)]
    bound = _BOUND if model.dtype == torch.float32 else _HALF_PRECISION_BOUND
    found = []
    for layer, (first, second) in enumerate(zip(here.keys, there.keys, strict=True)):
        errors = [_error(each, first, second, shift) for each in candidates]
        best = min(range(len(candidates)), key=errors.__getitem__)
        if not errors[best] <= bound:
            raise UnsupportedModelError(
                f"{type(model).__name__}: the keys of layer {layer} do not turn with their positions, or in a way that "
                "is not known here, so stored states cannot be moved",
                hint="use layout='reserved'",
            )
        found.append(candidates[best])
    return tuple(found)


def _error(rotary: Rotary | None, first: torch.Tensor, second: torch.Tensor, shift: int) -> float:
    if rotary is not None and 2 * len(rotary.frequencies) > first.shape[-1]:
        return float("inf")
    moved = first if rotary is None else rotary.turned(first, torch.tensor([shift]))[0]
    return float((moved.float() - second.float()).abs().max() / second.float().abs().max().clamp_min(1e-30))


def _candidates(model: PreTrainedModel) -> Iterator[Rotary]:
    """Both pairings of each distinct frequency table."""
    tables: list[torch.Tensor] = []
    for name, buffer in model.named_buffers():
        table = None
        # The table in use, not the one from before a scaling was applied.
        if name.endswith("inv_freq") and not name.endswith("original_inv_freq"):
            table = buffer.detach().to("cpu", torch.float64)
        elif name.endswith("embed_positions") and buffer.dim() == 2:
            # GPT-J and CodeGen keep sines and cosines by position, [positions, 2 * pairs], of frequencies in float32.
            dims = buffer.shape[-1]
            table = (1.0 / 10000 ** (torch.arange(0, dims, 2) / dims)).double()
        if table is not None and not any(torch.equal(table, other) for other in tables):
            tables.append(table)
    for table in tables:
        yield Rotary(table)
        yield Rotary(table, interleaved=True)
