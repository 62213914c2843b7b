"""A file of the store, mapped into memory: its states are used where they lie."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from promptcache.kv.arena import Arena
from promptcache.kv.block import KVBlock
from promptcache.kv.codec import Kind
from promptcache.layout.encodings.key import SegmentKey
from promptcache.store.checksum import checksum
from promptcache.store.header import BadFile, Entry, Header
from promptcache.store.placement import side_by_side

_KINDS: tuple[Kind, Kind] = ("keys", "values")


@dataclass(frozen=True, eq=False)
class MappedArena(Arena):
    """An arena in a mapped file. Nobody writes to it; where somebody did, the page is the process's own."""

    file: MappedFile

    def is_intact(self) -> bool:
        """See `MappedFile`."""
        return self.file.is_intact()


class MappedFile:
    """A file whose head is known. It stays mapped as long as a block of it is held, also when it is replaced or
    removed. Safe to use from many threads."""

    def __init__(self, path: Path, header: Header) -> None:
        """Raises OSError, and BadFile where it is not as long as it was."""
        self.header = header
        self.path = path
        # Open as long as the map, to see whether the file changes.
        self._descriptor = os.open(path, os.O_RDONLY)
        weakref.finalize(self, os.close, self._descriptor)
        self._stamp = self._look()
        if self._stamp[0] != header.file_bytes:
            raise BadFile(f"it has {self._stamp[0]} bytes, not {header.file_bytes}")
        # Private: what lies in the page cache is shared with other processes, and a stray write would stay ours.
        self._bytes = torch.from_file(str(path), shared=False, size=header.file_bytes, dtype=torch.uint8)
        self._entries = {entry.key: entry for entry in header.entries}
        self._checked: set[SegmentKey] = set()
        self._arena: weakref.ref[MappedArena] | None = None
        self._lock = threading.Lock()

    def is_intact(self) -> bool:
        """Whether nobody has cut or rewritten the file in place since it was mapped: reading behind its end would kill
        the process."""
        return self._look() == self._stamp

    def read(self, keys: Iterable[SegmentKey]) -> dict[SegmentKey, KVBlock]:
        """The blocks of those keys. Only their bytes are read: for the checksum the first time, and when they are used.

        Raises BadFile where they are not the bytes that were written.
        """
        entries = [self._entries[key] for key in keys]
        with self._lock:
            for entry in entries:
                if entry.key not in self._checked:
                    self._check(entry)
                    self._checked.add(entry.key)
            arena = self._whole() if self.header.codec.is_plain(self.header.dtype) else None
        if arena is not None:
            return {entry.key: arena.view(entry.start, entry.start + entry.length) for entry in entries}
        entries.sort(key=lambda entry: entry.start)
        return side_by_side([(entry.key, self._decoded(entry)) for entry in entries])

    def _look(self) -> tuple[int, int]:
        found = os.fstat(self._descriptor)
        return found.st_size, found.st_mtime_ns

    def _check(self, entry: Entry) -> None:
        if not self.is_intact():
            raise BadFile("it has changed since it was mapped")
        array: Any = self._bytes.numpy()
        data = memoryview(array)
        if checksum(data[start:end] for start, end in self.header.ranges(entry)) != entry.checksum:
            raise BadFile(f"the bytes of segment {entry.key} are damaged")

    def _whole(self) -> MappedArena:
        """The same one as long as a block of it is held: blocks that lie side by side are found to do so."""
        arena = self._arena() if self._arena is not None else None
        if arena is None:
            keys, values = (
                tuple(self._tensor((kind, n, "")) for n in range(self.header.num_layers)) for kind in _KINDS
            )
            arena = MappedArena(keys, values, self)
            self._arena = weakref.ref(arena)
        return arena

    def _tensor(self, place: tuple[Kind, int, str]) -> torch.Tensor:
        stored = self.header.tensors[place]
        start = len(self.header.encoded) + stored.start
        return self._bytes[start : start + stored.num_bytes].view(stored.dtype).view(stored.shape)

    def _decoded(self, entry: Entry) -> KVBlock:
        header = self.header

        def states(kind: Kind, layer: int) -> torch.Tensor:
            parts: dict[str, torch.Tensor] = {}
            for part in header.codec.parts(kind):
                first, rows = header.rows(entry, (kind, layer, part))
                parts[part] = self._tensor((kind, layer, part))[:, first : first + rows]
            return header.codec.decode(kind, parts, header.dtype)

        keys, values = (tuple(states(kind, n) for n in range(header.num_layers)) for kind in _KINDS)
        return KVBlock(keys, values)
