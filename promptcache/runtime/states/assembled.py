"""The assembled path: one preallocated buffer for a request, reused states copied to its front."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from promptcache.kv.block import KVBlock
from promptcache.kv.rotation import gather
from promptcache.layout.plan import RequestPlan, Run
from promptcache.layout.token_tree import TokenTree
from promptcache.models.adapter import ModelAdapter
from promptcache.runtime.states.state import computed_slots, rotations_of, run_states, tree_mask, used_states
from promptcache.store.base import Blocks


class AssembledState:
    """See `AttentionState`. Reused tokens fill the first slots, computed tokens follow in position order; what a token
    sees is decided by positions, so the order of slots changes nothing."""

    def __init__(self, adapter: ModelAdapter, plan: RequestPlan, blocks: Blocks, room: int) -> None:
        self.adapter = adapter
        self._plan, self._blocks = plan, blocks
        reused = [run for run in plan.runs if run.kind == "reused"]
        self.ids, self.positions = plan.computed_ids, plan.computed_positions
        self.cache = adapter.new_cache(plan.num_tokens + room)
        self.reused = sum(run.length for run in reused)
        if reused:
            parts = [(adapter.devices.near(run_states(run, blocks)), run.shift) for run in reused]
            gather(parts, rotations_of(plan, adapter), self.cache.extend(self.reused))
        self.slots = [position for run in reused for position in range(run.start, run.end)]
        self.next_position = plan.runs[-1].end

    def prefill(self, *, keep: int = 1) -> torch.Tensor:
        """See `AttentionState`."""
        return self._forward(self.ids, self.positions, keep)

    def prefill_tree(self, tree: TokenTree) -> torch.Tensor:
        """See `AttentionState`."""
        ids = [*self.ids, *tree.ids]
        positions = [*self.positions, *(self.next_position - 1 + depth for depth in tree.depths)]
        logits = self._forward(ids, positions, 1 + len(tree), tree)
        self.cache.rewind(self.reused + len(self.ids))
        del self.slots[self.reused + len(self.ids) :]
        return logits

    def step(self, token: int) -> torch.Tensor:
        """See `AttentionState`."""
        self.next_position += 1
        return self._forward([token], [self.next_position - 1], 1)[-1]

    def states_of(self, run: Run) -> KVBlock:
        """See `AttentionState`."""
        if run.kind == "reused":
            return used_states(run, self._blocks, self.adapter)
        slot = self.reused + computed_slots(self._plan)[run.start]
        return self.cache.view(slot, slot + run.length)

    def computed(self) -> KVBlock:
        """See `AttentionState`."""
        return self.cache.view(self.reused, self.cache.get_seq_length()).copy()

    def attention_shares(self, rows: Sequence[int]) -> torch.Tensor:
        """See `AttentionState`."""
        mask = self.adapter.position_mask(self.positions, [*self.slots, *self.positions])
        mass = self.adapter.attention_mass(self.ids, self.positions, self.cache, mask, rows)
        return mass[: self.reused] / mass.sum()

    def _forward(self, ids: list[int], positions: list[int], keep: int, tree: TokenTree | None = None) -> torch.Tensor:
        alone = not self.slots and not tree
        self.slots += positions
        if alone:
            return self.adapter.forward(ids, positions, self.cache, None, keep=keep)
        among = tree_mask(tree, 0, self.adapter.dtype) if tree else None
        mask = self.adapter.position_mask(positions, self.slots, among)
        return self.adapter.forward(ids, positions, self.cache, mask, keep=keep)
