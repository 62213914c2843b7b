"""Requests that go through the model together, each at its own place: they join and leave between steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from promptcache.kv.batch import BatchPass, SharedView
from promptcache.kv.block import KVBlock
from promptcache.kv.tails import Bucket
from promptcache.layout.plan import RequestPlan
from promptcache.layout.token_tree import TokenTree
from promptcache.models.adapter import ModelAdapter
from promptcache.runtime.batch.row import Row
from promptcache.runtime.batch.shared import Group, SharedStates
from promptcache.runtime.batch.views import shared_views
from promptcache.store.base import Blocks


class Batch:
    """Rows that attend to one copy of the stored states that they share. Nothing of a row depends on the others: its
    logits are those that it would have alone.

    For one caller at a time, and for models that attend segments where they lie (`adapter.attends_segments`). The
    blocks of a row must be held until it has left. A pass that raises ends the batch: its rows can only be dropped.
    """

    def __init__(self, adapter: ModelAdapter) -> None:
        assert adapter.attends_segments, "other models answer row by row"
        self._adapter = adapter
        self._tails = adapter.new_tails()
        self._rows: dict[int, Row] = {}
        self._joined = 0
        self._shared = SharedStates(adapter.devices)
        self._groups: list[Group] | None = None
        self._grouped_rows = 0
        self._standing: object = None
        self._views: tuple[SharedView, ...] = ()

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def num_bytes(self) -> int:
        """Bytes that it holds: the tails, and copies of short stored states."""
        return self._tails.num_bytes + self._shared.num_bytes

    def join(self, plan: RequestPlan, blocks: Blocks, tree: TokenTree | None = None) -> int:
        """One more row, and its number. The next step runs its computed tokens, with a tree behind the prompt if there
        is one, whose states are not kept."""
        self._joined += 1
        self._rows[self._joined] = Row.of(plan, blocks, tree, self._adapter)
        self._groups = None
        return self._joined

    def leave(self, row: int) -> None:
        """Forgets a row, at any time between two steps."""
        if not self._rows.pop(row).waits_to_begin:
            self._tails.leave(row)
        if self._groups is not None:
            self._groups = [group for group in self._groups if not self._rows.keys().isdisjoint(group.uses)]
            self._shared.keep(self._groups)
        if 2 * len(self._rows) < self._grouped_rows:
            # Masks may by now hide more of a group than is seen of it.
            self._groups = None
        if not self._rows:
            self._shared.keep([])

    def step(self, tokens: Mapping[int, int]) -> dict[int, torch.Tensor]:
        """One pass over all rows. `tokens` has the next token of each row that has begun; the others begin.

        Returns their logits by row, float32 [1, vocab_size]; of one with a tree [1 + nodes, vocab_size], as in
        `AttentionState.prefill_tree`.
        """
        if not self._rows:
            return {}
        begun = {number for number, row in self._rows.items() if not row.waits_to_begin}
        assert begun == tokens.keys(), "each row that has begun gets its next token, no other does"
        rows = {
            number: row if row.waits_to_begin else row.with_token(tokens[number]) for number, row in self._rows.items()
        }
        buckets = self._tails.open({number: len(row.ids) for number, row in rows.items()})
        order = [number for bucket in buckets for number in bucket.rows]
        ids: list[int] = []
        positions: list[int] = []
        keep: list[int] = []
        for number in order:
            ids += rows[number].ids
            positions += rows[number].positions
            keep += range(len(ids) - 1 - rows[number].nodes, len(ids))
        logits = self._adapter.forward_batch(ids, positions, self._pass(rows, buckets), keep)
        found = dict(zip(order, torch.split(logits, [1 + rows[number].nodes for number in order]), strict=True))
        for number, row in rows.items():
            if row.nodes:
                self._tails.rewind(number, self._tails.length(number) - row.nodes)
            self._rows[number] = row.after_pass()
            if row.reused is not self._rows[number].reused:
                self._groups = None
        return found

    def computed(self, row: int) -> KVBlock:
        """See `AttentionState`: own copy of the states that a row has computed."""
        return self._tails.states(row).copy()

    def _pass(self, rows: Mapping[int, Row], buckets: Sequence[Bucket]) -> BatchPass:
        moved = any(run.shift for row in rows.values() for run in row.reused)
        rotations = self._adapter.rotations if moved else None
        standing = [(bucket.rows, bucket.counts) for bucket in buckets]
        if self._groups is None:
            self._groups = self._shared.groups({number: row.reused for number, row in rows.items()}, rotations)
            self._standing, self._grouped_rows = None, len(rows)
        if self._standing != standing:
            self._standing = standing
            self._views = tuple(shared_views(self._groups, buckets, self._adapter.dtype))
        return BatchPass(
            self._tails,
            buckets,
            self._views,
            rotations,
            {number: row.mask for number, row in rows.items() if row.mask is not None},
            {number: row.segments(self._adapter) for number, row in rows.items() if self._adapter.has_windows},
        )
