"""The segments path: reused states are attended where they lie, only computed ones go to the request's tail."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping

import torch

from promptcache.kv.block import KVBlock
from promptcache.kv.segments import Segments, SegmentView
from promptcache.layout.key import SegmentKey
from promptcache.layout.plan import RequestPlan
from promptcache.models.adapter import ModelAdapter
from promptcache.runtime.state import run_states


class SegmentedState:
    """See `AttentionState`. Computed tokens are sorted by position, so those that see a reused run are a suffix of
    them: no mask, only a first row."""

    def __init__(
        self, adapter: ModelAdapter, plan: RequestPlan, blocks: Mapping[SegmentKey, KVBlock], room: int
    ) -> None:
        self.adapter = adapter
        computed = [run for run in plan.runs if run.kind != "reused"]
        self.ids = [token for run in computed for token in run.ids]
        self.positions = [position for run in computed for position in range(run.start, run.end)]
        self.views = tuple(
            SegmentView(*run_states(run, blocks), first_row=bisect_left(self.positions, run.start))
            for run in plan.runs
            if run.kind == "reused"
        )
        self.tail = adapter.new_cache(len(self.ids) + room)
        self.next_position = plan.runs[-1].end

    def prefill(self) -> torch.Tensor:
        """See `AttentionState`."""
        logits = self.adapter.forward_segments(self.ids, self.positions, self.tail, Segments(self.views))
        # From now on every row stands behind all segments.
        self.views = tuple(SegmentView(view.keys, view.values, 0) for view in self.views)
        return logits[-1]

    def step(self, token: int) -> torch.Tensor:
        """See `AttentionState`."""
        self.next_position += 1
        return self.adapter.forward_segments([token], [self.next_position - 1], self.tail, Segments(self.views))[-1]
