"""One request's attention state: the contract, and the ways to hold it by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import torch

from promptcache.errors import RequestError
from promptcache.kv.block import KVBlock
from promptcache.layout.key import SegmentKey
from promptcache.layout.plan import RequestPlan, Run
from promptcache.models.adapter import ModelAdapter


class AttentionState(Protocol):
    """Belongs to one request. Computed tokens see what stands at lower positions, wherever states lie in memory; stored
    blocks are read and never written."""

    def prefill(self) -> torch.Tensor:
        """One pass over all computed tokens, in position order: logits [vocab_size] of the last, float32."""

    def step(self, token: int) -> torch.Tensor:
        """One decode step at the next position: logits [vocab_size] behind `token`, float32."""


def attention_state(
    name: str, adapter: ModelAdapter, plan: RequestPlan, blocks: Mapping[SegmentKey, KVBlock], room: int
) -> AttentionState:
    """The state of that kind for a plan; `room` is how many tokens will be decoded. Raises RequestError for an unknown
    kind."""
    from promptcache.runtime.assembled import AssembledState
    from promptcache.runtime.segmented import SegmentedState

    known: dict[str, type[AssembledState] | type[SegmentedState]] = {
        "assembled": AssembledState,
        "segments": SegmentedState,
    }
    if name not in known:
        raise RequestError(f"unknown attention {name!r}", hint=f"known are: {', '.join(sorted(known))}")
    return known[name](adapter, plan, blocks, room)


def run_states(
    run: Run, blocks: Mapping[SegmentKey, KVBlock]
) -> tuple[tuple[torch.Tensor, ...], tuple[torch.Tensor, ...]]:
    """Keys and values of a reused run, views of its block: [num_kv_heads, run length, head_dim] a layer."""
    assert run.segment is not None
    block = blocks[run.segment.key]
    if run.length == block.seq_len:
        return block.keys, block.values
    part = slice(run.offset, run.offset + run.length)
    return tuple(key[:, part] for key in block.keys), tuple(value[:, part] for value in block.values)
