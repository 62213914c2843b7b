"""The assembled path: one preallocated buffer for a request, reused states copied to its front."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from promptcache.kv.block import KVBlock
from promptcache.layout.key import SegmentKey
from promptcache.layout.plan import RequestPlan
from promptcache.models.adapter import ModelAdapter
from promptcache.runtime.state import run_states


class AssembledState:
    """See `AttentionState`. Reused tokens fill the first slots, computed tokens follow in position order; what a token
    sees is decided by positions, so the order of slots changes nothing."""

    def __init__(
        self, adapter: ModelAdapter, plan: RequestPlan, blocks: Mapping[SegmentKey, KVBlock], room: int
    ) -> None:
        self.adapter = adapter
        reused = [run for run in plan.runs if run.kind == "reused"]
        self.computed = [run for run in plan.runs if run.kind != "reused"]
        self.cache = adapter.new_cache(plan.num_tokens + room)
        for run in reused:
            self.cache.append(*run_states(run, blocks))
        self.length = sum(run.length for run in reused)
        self.key_positions = torch.empty(plan.num_tokens + room, dtype=torch.long, device=adapter.device)
        self._place([position for run in reused for position in range(run.start, run.end)], 0)
        self.next_position = plan.runs[-1].end

    def prefill(self) -> torch.Tensor:
        """See `AttentionState`."""
        ids = [token for run in self.computed for token in run.ids]
        positions = [position for run in self.computed for position in range(run.start, run.end)]
        return self._forward(ids, positions)

    def step(self, token: int) -> torch.Tensor:
        """See `AttentionState`."""
        self.next_position += 1
        return self._forward([token], [self.next_position - 1])

    def _forward(self, ids: list[int], positions: list[int]) -> torch.Tensor:
        first = self.length == 0
        self._place(positions, self.length)
        self.length += len(ids)
        seen = None if first else self.key_positions[: self.length]
        return self.adapter.forward(ids, positions, self.cache, seen)[-1]

    def _place(self, positions: list[int], slot: int) -> None:
        self.key_positions[slot : slot + len(positions)] = torch.tensor(positions, dtype=torch.long)
