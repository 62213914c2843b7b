"""The segments path: reused states are attended where they lie, only computed ones go to the request's tail."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace

import torch

from promptcache.kv.arena import coalesce
from promptcache.kv.block import KVBlock
from promptcache.kv.rotation import Turns, gather
from promptcache.kv.segments import Segments, SegmentView
from promptcache.layout.plan import RequestPlan, Run
from promptcache.layout.token_tree import TokenTree
from promptcache.models.adapter import ModelAdapter
from promptcache.runtime.state import Blocks, computed_slots, run_states, tree_mask, used_states

GATHERED_TOKENS = 128
"""Runs of up to so many reused tokens are copied to the front of the tail: a call of the kernel for each of them, in
every layer, takes longer than the copy. Measured on two cores: a call costs 30 to 70 microseconds before its first key,
copying and turning a token 0.1 to 0.3."""


class SegmentedState:
    """See `AttentionState`. Computed tokens are sorted by position, so those that see a reused run are a suffix of
    them: no mask, only a first row."""

    def __init__(self, adapter: ModelAdapter, plan: RequestPlan, blocks: Blocks, room: int) -> None:
        self.adapter = adapter
        self._plan, self._blocks = plan, blocks
        computed = [run for run in plan.runs if run.kind != "reused"]
        self.ids = [token for run in computed for token in run.ids]
        self.positions = [position for run in computed for position in range(run.start, run.end)]
        gathered, self.views, self._first_rows = _views(plan, blocks, self.positions)
        rotations = adapter.rotations if any(run.shift for run in plan.runs if run.kind == "reused") else None
        shifts = tuple(sorted({view.shift for view in self.views if view.shift}))
        self._turns = Turns(shifts, rotations) if shifts and rotations else None
        self._gathered = sum(block.seq_len for block, _ in gathered)
        self.tail = adapter.new_cache(self._gathered + len(self.ids) + room)
        if gathered:
            gather(gathered, rotations, self.tail.extend(self._gathered))
        self.next_position = plan.runs[-1].end

    def prefill(self, *, keep: int = 1) -> torch.Tensor:
        """See `AttentionState`."""
        logits = self.adapter.forward_segments(self.ids, self.positions, self.tail, self._segments(), keep=keep)
        self._stand_behind()
        return logits

    def prefill_tree(self, tree: TokenTree) -> torch.Tensor:
        """See `AttentionState`."""
        ids = [*self.ids, *tree.ids]
        positions = [*self.positions, *(self.next_position - 1 + depth for depth in tree.depths)]
        mask = tree_mask(tree, len(self.ids), self.adapter.dtype) if len(tree) else None
        logits = self.adapter.forward_segments(ids, positions, self.tail, self._segments(mask), keep=1 + len(tree))
        self.tail.rewind(self._gathered + len(self.ids))
        self._stand_behind()
        return logits

    def step(self, token: int) -> torch.Tensor:
        """See `AttentionState`."""
        self.next_position += 1
        return self.adapter.forward_segments([token], [self.next_position - 1], self.tail, self._segments())[-1]

    def states_of(self, run: Run) -> KVBlock:
        """See `AttentionState`."""
        if run.kind == "reused":
            return used_states(run, self._blocks, self.adapter)
        slot = self._gathered + computed_slots(self._plan)[run.start]
        return self.tail.view(slot, slot + run.length)

    def computed(self) -> KVBlock:
        """See `AttentionState`."""
        return self.tail.view(self._gathered, self.tail.get_seq_length()).copy()

    def _segments(self, mask: torch.Tensor | None = None) -> Segments:
        return Segments(self.views, mask, self._turns, self._first_rows)

    def _stand_behind(self) -> None:
        """From now on every row stands behind all segments."""
        self.views = tuple(replace(view, first_row=0) for view in self.views)
        self._first_rows = ()


def _views(
    plan: RequestPlan, blocks: Blocks, positions: list[int]
) -> tuple[list[tuple[KVBlock, int]], tuple[SegmentView, ...], tuple[int, ...]]:
    """The reused runs: those to gather in the tail, with their shifts, and a view for each other one. Runs that lie
    side by side and are moved alike, with no computed token between, are one. Then the first row that sees each
    gathered token, nothing where all rows see all of them."""
    found: list[tuple[KVBlock, int, int]] = []
    for run in plan.runs:
        if run.kind != "reused":
            continue
        block, first_row = run_states(run, blocks), bisect_left(positions, run.start)
        if found and found[-1][1:] == (first_row, run.shift) and (joined := coalesce(found[-1][0], block)):
            found[-1] = (joined, first_row, run.shift)
        else:
            found.append((block, first_row, run.shift))
    gathered, views, first_rows = [], [], list[int]()
    for block, first_row, shift in found:
        if block.seq_len <= GATHERED_TOKENS:
            gathered.append((block, shift))
            first_rows += [first_row] * block.seq_len
        else:
            views.append(SegmentView.of(block, first_row, shift))
    return gathered, tuple(views), tuple(first_rows) if any(first_rows) else ()
