"""One request as a row of a batch."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace

import torch

from promptcache.kv.prefetch import fetched
from promptcache.kv.rotation import Turns
from promptcache.kv.segment_view import SegmentView
from promptcache.kv.segments import Segments
from promptcache.kv.window import Windows
from promptcache.layout.plan import RequestPlan
from promptcache.layout.token_tree import TokenTree
from promptcache.models.adapter import ModelAdapter
from promptcache.runtime.batch.pieces import Reused
from promptcache.runtime.states.state import tree_mask
from promptcache.store.base import Blocks


@dataclass(frozen=True)
class Row:
    """`ids` at `positions` are the tokens of its next pass, none where it waits for one; the last `nodes` of them are
    those of a tree. `mask` says what they see of each other, None for their order. `next_position` follows the last
    token; `tail` are the positions of what it has computed. Where the model has windows, `views` and their positions
    `stored` are once more what it reuses, for layers that attend row by row."""

    reused: tuple[Reused, ...]
    views: tuple[SegmentView, ...]
    stored: tuple[torch.Tensor, ...]
    ids: tuple[int, ...]
    positions: tuple[int, ...]
    next_position: int
    nodes: int = 0
    mask: torch.Tensor | None = None
    tail: tuple[int, ...] = ()

    @classmethod
    def of(cls, plan: RequestPlan, blocks: Blocks, tree: TokenTree | None, adapter: ModelAdapter) -> Row:
        """A request before its first pass, with a tree behind the prompt if there is one."""
        ids, positions = plan.computed_ids, plan.computed_positions
        runs = [(run, run.segment.key) for run in plan.runs if run.kind == "reused" and run.segment is not None]
        reused = tuple(
            Reused(key, blocks[key], run.offset, run.offset + run.length, run.shift, bisect_left(positions, run.start))
            for run, key in runs
        )
        views: tuple[SegmentView, ...] = ()
        stored: tuple[torch.Tensor, ...] = ()
        if adapter.has_windows:
            parts = [(each.block.part(each.start, each.end), each.first_row, each.shift) for each in reused]
            views = fetched(tuple(SegmentView.of(*part) for part in parts), adapter.devices)
            stored = tuple(torch.arange(run.start, run.end) for run, _ in runs)
        mask, nodes = None, len(tree) if tree else 0
        if tree:
            mask = tree_mask(tree, len(ids), adapter.dtype)
            ids += tree.ids
            positions += [plan.end - 1 + depth for depth in tree.depths]
        return cls(reused, views, stored, tuple(ids), tuple(positions), plan.end, nodes, mask)

    @property
    def waits_to_begin(self) -> bool:
        """Whether its first pass is still to come."""
        return bool(self.ids)

    def with_token(self, token: int) -> Row:
        """Before a decode step."""
        place = self.next_position
        return replace(self, ids=(token,), positions=(place,), next_position=place + 1)

    def after_pass(self) -> Row:
        """From now on it stands behind all that it reuses; a tree is forgotten."""
        reused, views = self.reused, self.views
        if any(run.first_row for run in reused):
            reused = tuple(replace(run, first_row=0) for run in reused)
            views = tuple(replace(view, first_row=0) for view in views)
        tail = (*self.tail, *self.positions[: len(self.positions) - self.nodes])
        return replace(self, reused=reused, views=views, ids=(), positions=(), nodes=0, mask=None, tail=tail)

    def segments(self, adapter: ModelAdapter) -> Segments:
        """What its tokens see in this pass, for layers that attend row by row."""
        shifts = tuple(sorted({view.shift for view in self.views if view.shift}))
        turns = Turns(shifts, adapter.rotations) if shifts else None
        windows = Windows(
            adapter.windows,
            torch.tensor(self.positions),
            torch.tensor((*self.tail, *self.positions)),
            self.stored,
        )
        return Segments(self.views, self.mask, turns, windows=windows)
