"""A request's hold on the blocks that it uses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from promptcache.kv.block import KVBlock
from promptcache.layout.encodings.key import SegmentKey


class Hold(Protocol):
    """What keeps some blocks from eviction until it is released, once."""

    def release(self) -> None: ...

    def abandon(self) -> None:
        """As `release`, for when nobody holds the lease any more: may be called on any thread, inside any lock."""


class Lease(Mapping[SegmentKey, KVBlock]):
    """Blocks by key, none of which is evicted while the lease lasts. It ends with `with` or `close`; one that is
    abandoned ends when nobody holds it any more. The blocks stay valid for whoever still has them."""

    def __init__(self) -> None:
        self._blocks: dict[SegmentKey, KVBlock] = {}
        self._holds: list[Hold] = []

    def add(self, blocks: Mapping[SegmentKey, KVBlock], hold: Hold | None = None) -> None:
        """Blocks that belong to it from now on; those without a hold are this request's own."""
        self._blocks.update(blocks)
        if hold is not None:
            self._holds.append(hold)

    def join(self, other: Lease) -> None:
        """Takes over what the other one has, its holds included."""
        self._blocks = {**other._blocks, **self._blocks}
        while other._holds:
            self._holds.append(other._holds.pop())

    def close(self) -> None:
        """Gives the blocks back. A second time does nothing."""
        while self._holds:
            self._holds.pop().release()

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        while self._holds:
            self._holds.pop().abandon()

    def __getitem__(self, key: SegmentKey) -> KVBlock:
        return self._blocks[key]

    def __iter__(self) -> Iterator[SegmentKey]:
        return iter(self._blocks)

    def __len__(self) -> int:
        return len(self._blocks)
