"""The segments path: reused states are attended where they lie, only computed ones go to the request's tail."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import torch

from promptcache.kv.arena import coalesce, gap, span
from promptcache.kv.block import KVBlock
from promptcache.kv.prefetch import fetched
from promptcache.kv.rotation import Turns, gather
from promptcache.kv.segment_view import NEVER, SegmentView
from promptcache.kv.segments import Segments
from promptcache.kv.window import Windows
from promptcache.layout.plan import RequestPlan, Run
from promptcache.layout.token_tree import TokenTree
from promptcache.models.adapter import ModelAdapter
from promptcache.runtime.states.state import computed_slots, rotations_of, run_states, tree_mask, used_states
from promptcache.store.base import Blocks

GATHERED_TOKENS = 128
"""Runs of up to so many reused tokens are copied to the front of the tail: a call of the kernel for each of them, in
every layer, takes longer than the copy. Measured on two cores: a call costs 30 to 70 microseconds before its first key,
copying and turning a token 0.1 to 0.3."""

_COVER_ROWS, _COVER_SCORES, _HOLE_TOKENS = 256, 1 << 17, 64
"""Neighbours that only a part of the rows sees, or with tokens between that are computed again, are attended as one
under a mask: for at most so many rows, of at most so many rows times tokens, or reading the mask takes longer than the
calls that it saves, and over holes of at most so many tokens. Measured on two cores, 60 rows and 2,048 tokens in 7
pieces: 3.4 ms a layer instead of 4.2, and 3.2 where no mask is needed; one row, 0.8 instead of 1.4; 6,144 tokens in one
take longer than in 7 pieces."""

_NOWHERE = -1
"""The place of what no row sees."""


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
        self.ids, self.positions = plan.computed_ids, plan.computed_positions
        limit = GATHERED_TOKENS if gathered_tokens is None else gathered_tokens
        stretches = _stretches(plan, blocks, self.positions)
        if len(self.ids) <= _COVER_ROWS and adapter.devices.are_cpu and not adapter.has_windows:
            stretches = _covered(stretches, _COVER_SCORES // len(self.ids), limit)
        gathered = [each for each in stretches if each.block.seq_len <= limit]
        viewed = [each for each in stretches if each.block.seq_len > limit]
        self._stored = (*gathered, *viewed)
        views = tuple(SegmentView.of(each.block, each.first_row, each.shift, each.first_rows) for each in viewed)
        self.views = fetched(views, adapter.devices)
        firsts = [each.first_row for each in gathered for _ in range(each.block.seq_len)]
        self._first_rows = tuple(firsts) if any(firsts) else ()
        rotations = rotations_of(plan, adapter)
        shifts = tuple(sorted({view.shift for view in self.views if view.shift}))
        self._turns = Turns(shifts, rotations) if shifts and rotations else None
        self._gathered = len(firsts)
        self.tail = adapter.new_cache(self._gathered + len(self.ids) + room)
        if gathered:
            parts = [(adapter.devices.near(each.block), each.shift) for each in gathered]
            gather(parts, rotations, self.tail.extend(self._gathered))
        # Who sees whom in a window goes by positions. Without one nobody asks for those of thousands of stored tokens.
        self._tail_positions = _positions(gathered) if adapter.has_windows else []
        self._view_positions = tuple(torch.tensor(_positions([each])) for each in viewed if adapter.has_windows)
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

    def attention_shares(self, rows: Sequence[int]) -> torch.Tensor:
        """See `AttentionState`."""
        segments = self._segments(self.positions, None)
        mass = self.adapter.segments_mass(self.ids, self.positions, self.tail, segments, rows)
        # Where a token is computed again, the stored one is no token of the prompt.
        positions = torch.tensor(_positions(self._stored))
        order = positions.argsort()[(positions == _NOWHERE).sum() :]
        return (mass[:-1] / mass.sum())[order.to(mass.device)]

    def _forward(self, ids: list[int], positions: list[int], mask: torch.Tensor | None, keep: int) -> torch.Tensor:
        segments = self._segments(positions, mask)
        return self.adapter.forward_segments(ids, positions, self.tail, segments, keep=keep)

    def _segments(self, positions: list[int], mask: torch.Tensor | None) -> Segments:
        """What new tokens at these positions see."""
        windows = None
        if self.adapter.has_windows:
            self._tail_positions += positions
            rows, tail = torch.tensor(positions), torch.tensor(self._tail_positions)
            windows = Windows(self.adapter.windows, rows, tail, self._view_positions)
        return Segments(self.views, mask, self._turns, self._first_rows, windows)

    def _stand_behind(self) -> None:
        """From now on every row stands behind all segments."""
        self.views = tuple(view.behind() for view in self.views)
        self._first_rows = ()


@dataclass(frozen=True)
class _Stretch:
    """Reused states that lie side by side: `first_row` is the first computed token that sees them, `shift` as in `Run`,
    `places` the positions that they are used at. `first_rows`: see `SegmentView`."""

    block: KVBlock
    first_row: int
    shift: int
    places: tuple[Sequence[int], ...]
    first_rows: torch.Tensor | None = None

    def joined(self, behind: _Stretch) -> list[_Stretch]:
        """This one and the next, as one where they can be."""
        if (self.first_row, self.shift) == (behind.first_row, behind.shift) and (
            whole := coalesce(self.block, behind.block)
        ):
            return [replace(self, block=whole, places=self.places + behind.places)]
        return [self, behind]


def _stretches(plan: RequestPlan, blocks: Blocks, positions: list[int]) -> list[_Stretch]:
    """The reused runs. Those that lie side by side and are moved alike, with no computed token between, are one."""
    found: list[_Stretch] = []
    for run in plan.runs:
        if run.kind != "reused":
            continue
        made = _Stretch(
            run_states(run, blocks), bisect_left(positions, run.start), run.shift, (range(run.start, run.end),)
        )
        last = found.pop() if found else None
        found += [made] if last is None else last.joined(made)
    return found


def _covered(stretches: Sequence[_Stretch], most: int, apart: int) -> list[_Stretch]:
    """Neighbours in memory as one stretch of at most `most` tokens. What would take no more than `apart` tokens stays
    apart, to be copied."""
    groups: list[list[_Stretch]] = []
    length = 0
    for each in stretches:
        between = gap(groups[-1][-1].block, each.block) if groups and groups[-1][-1].shift == each.shift else None
        more = (between or 0) + each.block.seq_len
        if between is None or between > _HOLE_TOKENS or length + more > most:
            groups.append([])
            length, more = 0, each.block.seq_len
        groups[-1].append(each)
        length += more
    return [
        each
        for group in groups
        for whole in ([_cover(group)] if len(group) > 1 else group)
        for each in (group if whole.block.seq_len <= apart else [whole])
    ]


def _cover(group: Sequence[_Stretch]) -> _Stretch:
    """Neighbours, and what lies between them."""
    first_rows: list[int] = []
    places: list[Sequence[int]] = []
    for each, behind in zip(group, (*group[1:], None), strict=True):
        hole = (behind and gap(each.block, behind.block)) or 0
        first_rows += [each.first_row] * each.block.seq_len + [NEVER] * hole
        places += [*each.places, [_NOWHERE] * hole]
    whole = span(group[0].block, group[-1].block)
    return replace(group[0], block=whole, places=tuple(places), first_rows=torch.tensor(first_rows))


def _positions(stretches: Iterable[_Stretch]) -> list[int]:
    return [position for each in stretches for places in each.places for position in places]
