"""What the rows of a batch computed: states in buffers that several rows share, each row as long as it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

from promptcache.kv.block import KVBlock

_LEAST, _SPARE = 32, 16
"""Tokens that the smallest buffer has room for in a row, and tokens that a row can grow by before it moves."""


class TailBuffer:
    """Rows of up to `capacity` tokens, a slot for each, filled from the front: `keys[layer]` and `values[layer]` are
    [num_kv_heads, slots, capacity, head_dim]. Its rows fill the first slots; `rows` and `lengths` are by slot. What no
    row has written is zero, or left by another row: finite, so that a mask can hide it."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.rows: list[int] = []
        self.lengths: list[int] = []
        self.keys: list[torch.Tensor] = []
        self.values: list[torch.Tensor] = []

    def reserve(self, more: int, model: Tails) -> None:
        """Makes room for so many more rows."""
        slots = self.keys[0].shape[1] if self.keys else 0
        needed = len(self.rows) + more
        if needed > slots:
            needed = max(needed, slots + slots // 2)
            self.keys = self._grown(self.keys, model, needed, 1)
            self.values = self._grown(self.values, model, needed, 2)

    def append(self, row: int) -> int:
        """A slot for one more row, behind the others."""
        self.rows.append(row)
        self.lengths.append(0)
        return len(self.rows) - 1

    def _grown(self, old: list[torch.Tensor], model: Tails, slots: int, dim: int) -> list[torch.Tensor]:
        made = []
        for layer, (shape, device) in enumerate(zip(model.shapes, model.devices, strict=True)):
            size = (shape[0], slots, self.capacity, shape[dim])
            made.append(torch.zeros(size, dtype=model.dtype, device=device))
            if old:
                made[-1][:, : old[layer].shape[1]] = old[layer]
        return made

    def remove(self, slot: int) -> None:
        """Frees a slot; the last row moves there."""
        last = len(self.rows) - 1
        if slot != last:
            length = self.lengths[last]
            for states in (*self.keys, *self.values):
                states[:, slot, :length] = states[:, last, :length]
            self.rows[slot], self.lengths[slot] = self.rows[last], length
        self.rows.pop()
        self.lengths.pop()

    def copy_to(self, slot: int, other: TailBuffer, other_slot: int) -> None:
        """A row's states, to a buffer with room for them."""
        length = self.lengths[slot]
        for ours, theirs in ((self.keys, other.keys), (self.values, other.values)):
            for source, target in zip(ours, theirs, strict=True):
                target[:, other_slot, :length] = source[:, slot, :length]
        other.lengths[other_slot] = length

    @property
    def num_bytes(self) -> int:
        """Bytes of its tensors."""
        return sum(states.numel() * states.element_size() for states in (*self.keys, *self.values))


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
    """The tails of all rows of a batch, by row number. A buffer for each power of two holds the rows of that length: a
    row that has become too long moves to the next, so that no row pays for the longest."""

    def __init__(
        self, shapes: Sequence[tuple[int, int, int]], dtype: torch.dtype, devices: Sequence[torch.device]
    ) -> None:
        """`shapes[layer]` is (num_kv_heads, key head_dim, value head_dim)."""
        self.shapes, self.dtype, self.devices = tuple(shapes), dtype, tuple(devices)
        self._buffers: dict[int, TailBuffer] = {}
        self._place: dict[int, TailBuffer] = {}
        self._slots: list[tuple[TailBuffer, int, int, dict[torch.device, torch.Tensor]]] = []

    def open(self, counts: Mapping[int, int]) -> list[Bucket]:
        """Makes room for a pass with so many new tokens of each row, all rows that are here included: one for each of
        these, any number for those that join. Returns where they stand."""
        assert self._place.keys() <= counts.keys(), "every row takes part in every pass"
        for row in [row for row in self._place if self.length(row) + 1 > self._place[row].capacity]:
            self._move(row, self.length(row) + 1)
        running = set(self._place)
        joining = sorted(counts.keys() - running, key=lambda row: (counts[row], row))
        self._place.update((row, self._buffer(counts[row])) for row in joining)
        for buffer, more in Counter(self._place[row] for row in joining).items():
            buffer.reserve(more, self)
        for row in joining:
            self._place[row].append(row)
        buckets, start = [], 0
        for _, buffer in sorted(self._buffers.items()):
            slot = 0
            for rows in ([r for r in buffer.rows if r in running], [r for r in buffer.rows if r not in running]):
                if rows:
                    new = tuple(counts[row] for row in rows)
                    lengths = tuple(self.length(row) + count for row, count in zip(rows, new, strict=True))
                    assert not slot or rows == buffer.rows[slot:]
                    buckets.append(Bucket(buffer, slot, start, tuple(rows), new, lengths))
                    slot, start = slot + len(rows), buckets[-1].end
        self._slots = [(bucket.buffer, bucket.start, bucket.end, self._where(bucket)) for bucket in buckets]
        for bucket in buckets:
            bucket.buffer.lengths[bucket.slot : bucket.slot + len(bucket.rows)] = bucket.lengths
        return buckets

    def write(self, layer: int, keys: torch.Tensor, values: torch.Tensor) -> None:
        """The states of the pass's tokens, [1, num_kv_heads, tokens, head_dim], each to its place."""
        for buffer, start, end, where in self._slots:
            for ours, new in ((buffer.keys[layer], keys), (buffer.values[layer], values)):
                ours.flatten(1, 2).index_copy_(1, where[ours.device], new[0, :, start:end])

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
        buffer = self._place.pop(row)
        buffer.remove(buffer.rows.index(row))
        if not buffer.rows:
            del self._buffers[buffer.capacity]

    @property
    def num_bytes(self) -> int:
        """Bytes of all buffers."""
        return sum(buffer.num_bytes for buffer in self._buffers.values())

    @property
    def total(self) -> int:
        """Tokens of all rows."""
        return sum(sum(buffer.lengths) for buffer in self._buffers.values())

    def _buffer(self, length: int) -> TailBuffer:
        capacity = max(_LEAST, 1 << (length + _SPARE - 1).bit_length())
        return self._buffers.setdefault(capacity, TailBuffer(capacity))

    def _move(self, row: int, length: int) -> None:
        old, new = self._place[row], self._buffer(length)
        new.reserve(1, self)
        old.copy_to(old.rows.index(row), new, new.append(row))
        self.leave(row)
        self._place[row] = new

    def _where(self, bucket: Bucket) -> dict[torch.device, torch.Tensor]:
        """For each token its place in the buffer's slots laid end to end."""
        capacity = bucket.buffer.capacity
        places: Iterator[int] = (
            (bucket.slot + number) * capacity + place
            for number, (count, length) in enumerate(zip(bucket.counts, bucket.lengths, strict=True))
            for place in range(length - count, length)
        )
        where = torch.tensor(list(places))
        return {device: where.to(device) for device in set(self.devices)}
