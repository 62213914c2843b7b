"""One request's attention state: the contract, and the ways to hold it by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch

from promptcache.errors import RequestError
from promptcache.kv.block import KVBlock
from promptcache.kv.rotation import Rotations, moved
from promptcache.layout.plan import RequestPlan, Run
from promptcache.layout.token_tree import TokenTree
from promptcache.models.adapter import ModelAdapter
from promptcache.store.base import Blocks


class AttentionState(Protocol):
    """Belongs to one request. Computed tokens see what stands at lower positions, wherever states lie in memory; stored
    blocks are read and never written."""

    def prefill(self, *, keep: int = 1) -> torch.Tensor:
        """One pass over all computed tokens, in position order. Logits of the last `keep` of them (0: of all), float32
        [keep, vocab_size]."""

    def prefill_tree(self, tree: TokenTree) -> torch.Tensor:
        """As `prefill`, with the tree behind the prompt in the same pass: float32 [1 + nodes, vocab_size], the prompt's
        last token first. The tree's states are not kept."""

    def step(self, token: int) -> torch.Tensor:
        """One decode step at the next position: logits [vocab_size] behind `token`, float32."""

    def states_of(self, run: Run) -> KVBlock:
        """After `prefill`: the states of one of the plan's runs, views that must not be written to."""

    def computed(self) -> KVBlock:
        """Own copy of the states that this request computed, in the order of computing: the plan's computed tokens by
        position, then decoded ones."""

    def attention_shares(self, rows: Sequence[int]) -> torch.Tensor:
        """A pass over the computed tokens for its attention alone: the share of it that these of them give to each
        reused token, float32 [reused tokens, in the order of runs]. The state serves for nothing else then."""


def attention_state(name: str, adapter: ModelAdapter, plan: RequestPlan, blocks: Blocks, room: int) -> AttentionState:
    """The state of that kind for a plan; `room` is how many tokens will be decoded. Raises RequestError for an unknown
    kind."""
    from promptcache.runtime.states.assembled import AssembledState
    from promptcache.runtime.states.ordered import OrderedState
    from promptcache.runtime.states.segmented import SegmentedState

    known: dict[str, Callable[[ModelAdapter, RequestPlan, Blocks, int], AttentionState]] = {
        "assembled": OrderedState if adapter.counts_slots else AssembledState,
        "segments": SegmentedState,
    }
    if name not in known:
        raise RequestError(f"unknown attention {name!r}", hint=f"known are: {', '.join(sorted(known))}")
    return known[name](adapter, plan, blocks, room)


def computed_slots(plan: RequestPlan) -> dict[int, int]:
    """Where the computed runs stand among the computed tokens, by start position."""
    slots, slot = {}, 0
    for run in plan.computed:
        slots[run.start] = slot
        slot += run.length
    return slots


def run_states(run: Run, blocks: Blocks) -> KVBlock:
    """Keys and values of a reused run as they are stored, views of its block: [num_kv_heads, run length, head_dim] a
    layer."""
    assert run.segment is not None
    block = blocks[run.segment.key]
    return block if run.length == block.seq_len else block.part(run.offset, run.offset + run.length)


def rotations_of(plan: RequestPlan, adapter: ModelAdapter) -> Rotations | None:
    """How the model turns keys, where a run of the plan is moved: not every model can tell."""
    return adapter.rotations if any(run.shift for run in plan.runs if run.kind == "reused") else None


def used_states(run: Run, blocks: Blocks, adapter: ModelAdapter) -> KVBlock:
    """As `run_states`, on the model's devices and with keys as the run uses them: turned in a copy where it stands
    elsewhere than when encoded."""
    block = adapter.devices.near(run_states(run, blocks))
    return moved(block, run.shift, adapter.rotations) if run.shift else block


def tree_mask(tree: TokenTree, before: int, dtype: torch.dtype) -> torch.Tensor:
    """Additive [before + nodes, before + nodes]: `before` tokens in causal order, then the tree, whose nodes see all of
    those, their ancestors and themselves."""
    size = before + len(tree)
    mask = torch.full((size, size), torch.finfo(dtype).min, dtype=dtype).triu(1)
    mask[before:, before:] = torch.finfo(dtype).min
    for node, seen in enumerate(tree.ancestors()):
        mask[before + node, [before + other for other in seen]] = 0
    return mask
