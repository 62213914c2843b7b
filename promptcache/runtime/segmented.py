"""The segments path: reused states are attended where they lie, only computed ones go to the request's tail."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace

import torch

from promptcache.kv.arena import coalesce
from promptcache.kv.block import KVBlock
from promptcache.kv.rotation import Turns, gather
from promptcache.kv.segments import Segments, SegmentView
from promptcache.kv.window import Windows
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

    def __init__(
        self,
        adapter: ModelAdapter,
        plan: RequestPlan,
        blocks: Blocks,
        room: int,
        gathered_tokens: int | None = None,
    ) -> None:
        """`gathered_tokens` takes the place of GATHERED_TOKENS."""
        self.adapter = adapter
        self._plan, self._blocks = plan, blocks
        computed = [run for run in plan.runs if run.kind != "reused"]
        self.ids = [token for run in computed for token in run.ids]
        self.positions = [position for run in computed for position in range(run.start, run.end)]
        gathered, views, self._first_rows = _views(plan, blocks, self.positions, gathered_tokens)
        self.views = tuple(view for view, _ in views)
        self._view_positions = tuple(torch.tensor(positions) for _, positions in views)
        self._tail_positions = [position for _, _, positions in gathered for position in positions]
        rotations = adapter.rotations if any(run.shift for run in plan.runs if run.kind == "reused") else None
        shifts = tuple(sorted({view.shift for view in self.views if view.shift}))
        self._turns = Turns(shifts, rotations) if shifts and rotations else None
        self._gathered = len(self._tail_positions)
        self.tail = adapter.new_cache(self._gathered + len(self.ids) + room)
        if gathered:
            blocks_shifts = [(block, shift) for block, shift, _ in gathered]
            gather(blocks_shifts, rotations, self.tail.extend(self._gathered))
        self.next_position = plan.runs[-1].end

    def prefill(self, *, keep: int = 1) -> torch.Tensor:
        """See `AttentionState`."""
        logits = self._forward(self.ids, self.positions, None, keep)
        self._stand_behind()
        return logits

    def prefill_tree(self, tree: TokenTree) -> torch.Tensor:
        """See `AttentionState`."""
        ids = [*self.ids, *tree.ids]
        positions = [*self.positions, *(self.next_position - 1 + depth for depth in tree.depths)]
        mask = tree_mask(tree, len(self.ids), self.adapter.dtype) if len(tree) else None
        logits = self._forward(ids, positions, mask, 1 + len(tree))
        self.tail.rewind(self._gathered + len(self.ids))
        del self._tail_positions[self.tail.get_seq_length() :]
        self._stand_behind()
        return logits

    def step(self, token: int) -> torch.Tensor:
        """See `AttentionState`."""
        self.next_position += 1
        return self._forward([token], [self.next_position - 1], None, 1)[-1]

    def states_of(self, run: Run) -> KVBlock:
        """See `AttentionState`."""
        if run.kind == "reused":
            return used_states(run, self._blocks, self.adapter)
        slot = self._gathered + computed_slots(self._plan)[run.start]
        return self.tail.view(slot, slot + run.length)

    def computed(self) -> KVBlock:
        """See `AttentionState`."""
        return self.tail.view(self._gathered, self.tail.get_seq_length()).copy()

    def _forward(self, ids: list[int], positions: list[int], mask: torch.Tensor | None, keep: int) -> torch.Tensor:
        self._tail_positions += positions
        windows = None
        if self.adapter.has_windows:
            rows, tail = torch.tensor(positions), torch.tensor(self._tail_positions)
            windows = Windows(self.adapter.windows, rows, tail, self._view_positions)
        segments = Segments(self.views, mask, self._turns, self._first_rows, windows)
        return self.adapter.forward_segments(ids, positions, self.tail, segments, keep=keep)

    def _stand_behind(self) -> None:
        """From now on every row stands behind all segments."""
        self.views = tuple(replace(view, first_row=0) for view in self.views)
        self._first_rows = ()


def _views(
    plan: RequestPlan,
    blocks: Blocks,
    positions: list[int],
    gathered_tokens: int | None,
) -> tuple[list[tuple[KVBlock, int, list[int]]], list[tuple[SegmentView, list[int]]], tuple[int, ...]]:
    """The reused runs, each with the positions of its tokens: those to gather in the tail, with their shifts, and a
    view for each other one. Runs that lie side by side and are moved alike, with no computed token between, are one.
    Then the first row that sees each gathered token, nothing where all rows see all of them."""
    limit = GATHERED_TOKENS if gathered_tokens is None else gathered_tokens
    found: list[tuple[KVBlock, int, int, list[int]]] = []
    for run in plan.runs:
        if run.kind != "reused":
            continue
        block, first_row, places = run_states(run, blocks), bisect_left(positions, run.start), range(run.start, run.end)
        if found and found[-1][1:3] == (first_row, run.shift) and (joined := coalesce(found[-1][0], block)):
            found[-1] = (joined, first_row, run.shift, [*found[-1][3], *places])
        else:
            found.append((block, first_row, run.shift, [*places]))
    gathered, views, first_rows = [], [], list[int]()
    for block, first_row, shift, at in found:
        if block.seq_len <= limit:
            gathered.append((block, shift, at))
            first_rows += [first_row] * block.seq_len
        else:
            views.append((SegmentView.of(block, first_row, shift), at))
    return gathered, views, tuple(first_rows) if any(first_rows) else ()
