"""The assembled path of models that take a token's place in the cache for its position (ALiBi)."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from promptcache.kv.block import KVBlock
from promptcache.layout.plan import RequestPlan, Run
from promptcache.layout.token_tree import TokenTree
from promptcache.models.adapter import ModelAdapter
from promptcache.runtime.states.state import used_states
from promptcache.store.base import Blocks


class OrderedState:
    """See `AttentionState`. All tokens enter one buffer in position order, without gaps. No mask can say that a token
    does not see a reused one behind it, so each run of computed tokens is a pass of its own."""

    def __init__(self, adapter: ModelAdapter, plan: RequestPlan, blocks: Blocks, room: int) -> None:
        assert plan.position_ids == tuple(range(plan.num_tokens)), "such a model knows no gaps"
        self.adapter = adapter
        self._plan, self._blocks = plan, blocks
        self.cache = adapter.new_cache(plan.num_tokens + room)

    def prefill(self, *, keep: int = 1) -> torch.Tensor:
        """See `AttentionState`."""
        found: list[torch.Tensor] = []
        for run in self._plan.runs:
            if run.kind == "reused":
                self.cache.append(used_states(run, self._blocks, self.adapter))
            else:
                found.append(self._forward(run.ids, 1 if keep == 1 else 0))
        return torch.cat(found)[-keep:]

    def prefill_tree(self, tree: TokenTree) -> torch.Tensor:
        """See `AttentionState`. A tree cannot be masked either: each of its branches is a pass."""
        last = self.prefill()
        rows = last.expand(1 + len(tree), -1).clone()
        end = self.cache.get_seq_length()
        for nodes in tree.ancestors():
            if nodes[-1] not in tree.parents:
                rows[[1 + node for node in nodes]] = self._forward([tree.ids[node] for node in nodes], 0)
                self.cache.rewind(end)
        return rows

    def step(self, token: int) -> torch.Tensor:
        """See `AttentionState`."""
        return self._forward([token], 1)[-1]

    def states_of(self, run: Run) -> KVBlock:
        """See `AttentionState`."""
        return self.cache.view(run.start, run.end)

    def computed(self) -> KVBlock:
        """See `AttentionState`."""
        places = [(run.start, run.end) for run in self._plan.computed]
        decoded = (self._plan.num_tokens, self.cache.get_seq_length())
        return KVBlock.joined([self.cache.view(*place) for place in (*places, decoded)])

    def attention_shares(self, rows: Sequence[int]) -> torch.Tensor:
        """See `AttentionState`."""
        mass = torch.zeros(self._plan.num_tokens, device=self.adapter.device)
        before = 0
        for run in self._plan.runs:
            if run.kind == "reused":
                self.cache.append(used_states(run, self._blocks, self.adapter))
                continue
            asked = [row - before for row in rows if before <= row < before + run.length]
            places = range(run.start, run.end)
            mass[: run.end] += self.adapter.attention_mass(run.ids, places, self.cache, None, asked)
            before += run.length
        reused = [slot for run in self._plan.runs if run.kind == "reused" for slot in range(run.start, run.end)]
        return mass[reused] / mass.sum()

    def _forward(self, ids: Sequence[int], keep: int) -> torch.Tensor:
        start = self.cache.get_seq_length()
        return self.adapter.forward(ids, range(start, start + len(ids)), self.cache, None, keep=keep)
