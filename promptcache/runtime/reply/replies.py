"""Replies that run together: as one ends, the next that waits takes its place."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import torch

from promptcache.kv.block import KVBlock
from promptcache.models.adapter import ModelAdapter
from promptcache.runtime.batch.batch import Batch
from promptcache.runtime.reply.reply import Reply
from promptcache.store.lease import Lease

MOST_TOKENS = 4096
"""So many new tokens join a pass at most, so that what it needs beside the states stays small. A row with more joins
alone."""


@dataclass(frozen=True)
class _Place:
    """A reply's row of the batch, and the blocks that are held for it."""

    reply: Reply
    row: int
    blocks: Lease
    batch: Batch

    def computed(self) -> KVBlock:
        """See `ComputedStates`."""
        return self.batch.computed(self.row)


class Replies:
    """Up to `max_batch` replies at once, one token of each a step; those that are added beyond it wait.

    What fails in one reply, from its stored states to its sampler, is its `fault` and harms no other. What fails in a
    pass of the model is raised, and ends all. `close`, or `with`, gives back what is still held. For one caller at a
    time.
    """

    def __init__(self, adapter: ModelAdapter, max_batch: int) -> None:
        self._batch = Batch(adapter)
        self._max_batch = max_batch
        self._waiting: deque[Reply] = deque()
        self._places: dict[int, _Place] = {}
        self._tokens: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._waiting) + len(self._places)

    @property
    def num_bytes(self) -> int:
        """Bytes that the batch holds beside the store, see `Batch`."""
        return self._batch.num_bytes

    def add(self, reply: Reply) -> None:
        """One more reply. It begins with the next step that has a place for it."""
        self._waiting.append(reply)

    def step(self) -> list[Reply]:
        """One pass. Returns the replies that have one more token (its text is their `piece`), with which some are at
        their end and have their `completion`, and those that have a `fault`; who joined first comes first."""
        advanced = self._join()
        for row, logits in sorted(self._batch.step(self._tokens).items()):
            place = self._places[row]
            if self._ends(place, logits[-1]):
                self._leave(place)
            else:
                self._tokens[row] = place.reply.token
            advanced.append(place.reply)
        return advanced

    def drop(self, reply: Reply) -> None:
        """Gives up one reply, waiting or running."""
        if reply in self._waiting:
            self._waiting.remove(reply)
        for place in [place for place in self._places.values() if place.reply is reply]:
            self._leave(place)

    def close(self) -> None:
        """Gives up all that are left."""
        self._waiting.clear()
        for place in self._places.values():
            place.blocks.close()
        self._places.clear()

    def __enter__(self) -> Replies:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _join(self) -> list[Reply]:
        """Lets replies join while there are places; returns those that failed before they could."""
        failed: list[Reply] = []
        tokens = 0
        while self._waiting and len(self._places) < self._max_batch:
            tokens += self._waiting[0].computed_tokens
            if tokens > MOST_TOKENS and tokens > self._waiting[0].computed_tokens:
                break
            reply = self._waiting.popleft()
            try:
                settled = reply.settle()
                row = self._batch.join(settled.plan, settled.blocks)
            except Exception as fault:
                reply.fault = fault
                failed.append(reply)
            else:
                self._places[row] = _Place(reply, row, settled.blocks, self._batch)
        for place in self._places.values():
            if place.row not in self._tokens:
                place.reply.assembled()
        return failed

    def _ends(self, place: _Place, logits: torch.Tensor) -> bool:
        """Whether a reply is at its end with its next token."""
        try:
            ended = place.reply.take(logits)
            if ended:
                place.reply.finish(place)
        except Exception as fault:
            place.reply.fault = fault
            return True
        return ended

    def _leave(self, place: _Place) -> None:
        self._batch.leave(place.row)
        self._places.pop(place.row)
        self._tokens.pop(place.row, None)
        place.blocks.close()
