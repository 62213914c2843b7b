"""What the rows of a batch computed: states in buffers that several rows share, each row as long as it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from promptcache.kv.block import KVBlock
from promptcache.kv.tail_buffer import TailBuffer, TailShape

_LEAST, _SPARE, _WIDER = 32, 4, 1.5
"""Tokens that the smallest buffer has room for in a row, tokens that a row can grow by before it moves, and how much
wider than needed a buffer may be."""


@dataclass(frozen=True, eq=False)
class Bucket:
    """Rows side by side in one buffer, from `slot` on, whose new tokens stand side by side in the pass, from `start`
    on. `counts` are their new tokens, `lengths` all of their tail, these included: either each has one new token, or
    none has others."""

    buffer: TailBuffer
    slot: int
    start: int
    rows: tuple[int, ...]
    counts: tuple[int, ...]
    lengths: tuple[int, ...]

    @property
    def end(self) -> int:
        """Behind its last token in the pass."""
        return self.start + sum(self.counts)

    def states(self, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of its rows, [rows, num_kv_heads, longest, head_dim], without a copy."""
        rows, longest = slice(self.slot, self.slot + len(self.rows)), max(self.lengths)
        keys, values = (states[layer][:, rows, :longest] for states in (self.buffer.keys, self.buffer.values))
        return keys.transpose(0, 1), values.transpose(0, 1)


class Tails:
    """The tails of all rows of a batch, by row number. Rows of about the same length share a buffer, and one that has
    become too long moves to the next, so that no row pays for the longest."""

    def __init__(
        self, shapes: Sequence[tuple[int, int, int]], dtype: torch.dtype, devices: Sequence[torch.device]
    ) -> None:
        """`shapes[layer]` is (num_kv_heads, key head_dim, value head_dim)."""
        self.layers = [TailShape(*shape, dtype, device) for shape, device in zip(shapes, devices, strict=True)]
        self._buffers: dict[int, TailBuffer] = {}
        self._place: dict[int, TailBuffer] = {}
        self._open: list[tuple[Bucket, dict[torch.device, torch.Tensor]]] = []

    def open(self, counts: Mapping[int, int]) -> list[Bucket]:
        """Makes room for a pass with so many new tokens of each row, all rows that are here included: one for each of
        these, any number for those that join. Returns where they stand."""
        assert self._place.keys() <= counts.keys(), "every row takes part in every pass"
        running = list(self._place)
        longer = {row: length for row in running if (length := self.length(row) + 1) > self._place[row].capacity}
        joining = sorted(counts.keys() - running, key=lambda row: (counts[row], row))
        self._arrange(longer, {row: counts[row] for row in joining})
        buckets, start = [], 0
        for _, buffer in sorted(self._buffers.items()):
            new = sum(row in joining for row in buffer.rows)
            cut = len(buffer.rows) - new
            for slot, rows in ((0, buffer.rows[:cut]), (cut, buffer.rows[cut:])):
                if rows:
                    more = tuple(counts[row] for row in rows)
                    lengths = tuple(old + count for old, count in zip(buffer.lengths[slot:], more, strict=False))
                    buckets.append(Bucket(buffer, slot, start, tuple(rows), more, lengths))
                    start = buckets[-1].end
        for bucket in buckets:
            bucket.buffer.lengths[bucket.slot : bucket.slot + len(bucket.rows)] = bucket.lengths
        self._open = [(bucket, self._where(bucket)) for bucket in buckets]
        return buckets

    def write(self, layer: int, keys: torch.Tensor, values: torch.Tensor) -> None:
        """The states of the pass's tokens, [1, num_kv_heads, tokens, head_dim], each to its place."""
        for bucket, where in self._open:
            tokens = slice(bucket.start, bucket.end)
            for ours, new in ((bucket.buffer.keys[layer], keys), (bucket.buffer.values[layer], values)):
                ours.flatten(1, 2).index_copy_(1, where[ours.device], new[0, :, tokens])

    def length(self, row: int) -> int:
        """Tokens of a row."""
        buffer = self._place[row]
        return buffer.lengths[buffer.rows.index(row)]

    def states(self, row: int) -> KVBlock:
        """The row's states, views that must not be kept: they move when rows come and go."""
        buffer = self._place[row]
        slot = buffer.rows.index(row)
        length = buffer.lengths[slot]
        keys, values = (tuple(layer[:, slot, :length] for layer in each) for each in (buffer.keys, buffer.values))
        return KVBlock(keys, values)

    def rewind(self, row: int, length: int) -> None:
        """Forgets the row's tokens from `length` on."""
        buffer = self._place[row]
        assert 0 <= length <= self.length(row), "a tail can only be made shorter"
        buffer.lengths[buffer.rows.index(row)] = length

    def leave(self, row: int) -> None:
        """Frees the row's place."""
        self._apply(self._vacate(row))

    @property
    def num_bytes(self) -> int:
        """Bytes of all buffers."""
        return sum(buffer.num_bytes for buffer in self._buffers.values())

    @property
    def total(self) -> int:
        """Tokens of all rows."""
        return sum(sum(buffer.lengths) for buffer in self._buffers.values())

    def _arrange(self, longer: Mapping[int, int], joining: Mapping[int, int]) -> None:
        """Gives each of these rows, which need room for so many tokens, a place in the buffer of that length: those
        that are here move, the others stand behind them."""
        wanted: dict[int, int] = {}
        for row, length in sorted({**longer, **joining}.items(), key=lambda each: -each[1]):
            # Rather with rows that are a little longer than in a buffer more: each is a call of the kernel.
            least = _capacity(length)
            wanted[row] = min((c for c in self._buffers if least <= c <= _WIDER * least), default=least)
            self._buffers.setdefault(wanted[row], TailBuffer(wanted[row], self.layers))
        steps: list[Callable[[int], None]] = []
        coming = Counter(wanted.values())
        for capacity, buffer in self._buffers.items():
            rows = len(buffer.rows) + coming[capacity]
            if rows > buffer.slots or 2 * rows < buffer.slots:
                # Rows that come one at a time find some room; those that come together take no more than they need.
                buffer.slots = rows + rows // 4 if buffer.rows else rows
                steps.append(partial(buffer.resize, slots=buffer.slots))
        for row in longer:
            buffer, old, length = self._buffers[wanted[row]], self._place[row], self.length(row)
            steps.append(
                partial(buffer.copy, slot=len(buffer.rows), source=old, source_slot=old.rows.index(row), length=length)
            )
            steps += self._vacate(row)
            self._enter(row, buffer, length)
        for row in joining:
            self._enter(row, self._buffers[wanted[row]], 0)
        self._apply(steps)

    def _enter(self, row: int, buffer: TailBuffer, length: int) -> None:
        buffer.rows.append(row)
        buffer.lengths.append(length)
        self._place[row] = buffer

    def _vacate(self, row: int) -> list[Callable[[int], None]]:
        """Takes a row out of its buffer; the last one there takes its place."""
        buffer = self._place.pop(row)
        slot, last = buffer.rows.index(row), len(buffer.rows) - 1
        moved, length = buffer.rows.pop(), buffer.lengths.pop()
        if slot == last:
            return []
        buffer.rows[slot], buffer.lengths[slot] = moved, length
        return [partial(buffer.copy, slot=slot, source=buffer, source_slot=last, length=length)]

    def _apply(self, steps: Sequence[Callable[[int], None]]) -> None:
        """Moves states as it was said, layer by layer; buffers without rows go."""
        empty = [buffer for buffer in self._buffers.values() if not buffer.rows]
        for number in range(len(self.layers)):
            for step in steps:
                step(number)
            for buffer in empty:
                buffer.resize(number, 0)
        for buffer in empty:
            del self._buffers[buffer.capacity]

    def _where(self, bucket: Bucket) -> dict[torch.device, torch.Tensor]:
        """For each token its place in the buffer's slots laid end to end."""
        capacity = bucket.buffer.capacity
        places: Iterator[int] = (
            (bucket.slot + number) * capacity + place
            for number, (count, length) in enumerate(zip(bucket.counts, bucket.lengths, strict=True))
            for place in range(length - count, length)
        )
        where = torch.tensor(list(places))
        return {device: where.to(device) for device in {layer.device for layer in self.layers}}


def _capacity(length: int) -> int:
    """The buffer for rows of that length: powers of two, and three steps between them."""
    least = max(_LEAST, length + _SPARE)
    step = max(1 << (least - 1).bit_length() - 3, 1)
    return -(-least // step) * step
