"""A tier in a folder, shared by all processes that name it."""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from promptcache.kv.block import KVBlock
from promptcache.kv.codec import Codec
from promptcache.layout.encodings.key import SegmentKey
from promptcache.store.base import Blocks, Origin, TierStats
from promptcache.store.folder import Folder
from promptcache.store.header import BadFile, Header
from promptcache.store.mapped import MappedFile
from promptcache.store.usage import note_use
from promptcache.store.writing import Packed

logger = logging.getLogger(__name__)

_TOUCH_EVERY_S = 60.0


class DiskTier:
    """See `Tier`. What is put together is one file, and blocks are views of the mapped file where the codec leaves
    states as they are.

    A file that is cut, damaged, gone or of another version is a miss, and the reason is in the log; damaged ones are
    removed. A file that cannot be written is left, with a warning. Files of which nothing was used for `ttl` seconds
    are misses, and every use begins that time anew.
    """

    name = "disk"

    def __init__(
        self,
        path: Path,
        budget_bytes: int,
        codec: Codec,
        *,
        ttl: float | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Nothing is created before something is put. Raises StoreError for a path that is no folder."""
        self.budget_bytes = budget_bytes
        self.codec = codec
        self.folder = Folder(path, clock)
        self._ttl = ttl
        self._clock = clock
        self._where: dict[SegmentKey, str] = {}
        self._headers: dict[str, Header] = {}
        self._bad: set[str] = set()
        self._mapped: weakref.WeakValueDictionary[str, MappedFile] = weakref.WeakValueDictionary()
        self._touched: dict[str, float] = {}
        self._hits = self._misses = self._evictions = 0
        self._lock = threading.RLock()

    def get(self, keys: Iterable[SegmentKey]) -> dict[SegmentKey, KVBlock]:
        """See `Tier`."""
        keys = list(dict.fromkeys(keys))
        found: dict[SegmentKey, KVBlock] = {}
        for name, wanted in self._located(keys).items():
            with self._lock:
                file = self._open(name)
            if file is None:
                continue
            try:
                found.update(file.read(wanted))
            except BadFile as fault:
                self._refuse(name, fault)
                continue
            note_use(file.path)
        with self._lock:
            self._hits += len(found)
            self._misses += len(keys) - len(found)
        return found

    def put(self, blocks: Blocks, origin: Origin) -> None:
        """See `Tier`."""
        present = self.contains(blocks)
        new = {key: block for key, block in blocks.items() if key not in present and block.seq_len}
        if not new:
            return
        packed = Packed(new, origin, self.codec)
        header = packed.header
        if header.file_bytes > self.budget_bytes:
            logger.warning(
                "schema %s: %d bytes are more than the disk tier may hold (%d), and are not kept there",
                origin.schema,
                header.file_bytes,
                self.budget_bytes,
            )
            return
        try:
            in_use = set(self._mapped.keys())
            self._evictions += self.folder.make_room(header.file_bytes, self.budget_bytes, spare=in_use)
            self.folder.write(packed)
        except OSError as fault:
            logger.warning("schema %s is not kept on disk: %s", origin.schema, fault)
            return
        with self._lock:
            self._bad.discard(header.name)
            self._add(header)

    def contains(self, keys: Iterable[SegmentKey]) -> set[SegmentKey]:
        """See `Tier`. A file's head and its length are looked at."""
        found: set[SegmentKey] = set()
        for name, wanted in self._located(list(keys)).items():
            if self._is_there(name):
                found.update(wanted)
        return found

    def discard(self, keys: Collection[SegmentKey]) -> None:
        """See `Tier`. A file goes when none of its blocks is left."""
        with self._lock:
            for name, unwanted in self._located(list(keys)).items():
                for key in unwanted:
                    del self._where[key]
                if not any(self._where.get(entry.key) == name for entry in self._headers[name].entries):
                    self._remove(name)

    def touch(self, keys: Iterable[SegmentKey]) -> None:
        """Says that blocks were used, where another tier served them: their time to live begins anew."""
        with self._lock:
            names = {name for key in keys if (name := self._where.get(key)) is not None}
            now = time.monotonic()
            every = _TOUCH_EVERY_S if self._ttl is None else min(_TOUCH_EVERY_S, self._ttl / 4)
            due = [name for name in names if now - self._touched.get(name, -every) >= every]
            self._touched.update(dict.fromkeys(due, now))
        for name in due:
            self.folder.refresh(name)

    def stats(self) -> TierStats:
        """See `Tier`. Bytes are those of all files in the folder, blocks those that this process knows of."""
        with self._lock:
            self._look()
            counts = (self._hits, self._misses, self._evictions)
            return TierStats(len(self._where), self.folder.num_bytes, self.budget_bytes, *counts)

    def headers(self) -> list[Header]:
        """What lies in the folder, as far as it can be read."""
        with self._lock:
            self._look()
            return list(self._headers.values())

    def _located(self, keys: list[SegmentKey]) -> dict[str, list[SegmentKey]]:
        """The known ones of these keys by file."""
        with self._lock:
            if any(key not in self._where for key in keys):
                self._look()
            files: dict[str, list[SegmentKey]] = {}
            for key in keys:
                if (name := self._where.get(key)) is not None:
                    files.setdefault(name, []).append(key)
            return files

    def _look(self) -> None:
        """Finds what other processes have written and removed."""
        names = self.folder.names()
        for name in self._headers.keys() - names:
            self._forget(name)
        for name in names - self._headers.keys() - self._bad:
            try:
                self._add(self.folder.header(name))
            except BadFile as fault:
                self._refuse(name, fault)
            except OSError as fault:
                logger.warning("%s cannot be read and is left out: %s", self.folder.path / name, fault)
                self._bad.add(name)

    def _open(self, name: str) -> MappedFile | None:
        """The file, mapped; None where it cannot be used any more."""
        file = self._mapped.get(name)
        if file is not None and not file.is_intact():
            del self._mapped[name]
            file = None
        if not self._is_there(name):
            return None
        if file is None:
            try:
                file = MappedFile(self.folder.path / name, self._headers[name])
            except BadFile as fault:
                self._refuse(name, fault)
                return None
            except OSError as fault:
                logger.warning("%s cannot be read: %s", self.folder.path / name, fault)
                self._forget(name)
                return None
            self._mapped[name] = file
        return file

    def _is_there(self, name: str) -> bool:
        """Whether a file has its length and has not expired."""
        with self._lock:
            header = self._headers.get(name)
            if header is None:
                return False
            try:
                size, age = self.folder.size_and_age(name)
            except OSError as fault:
                logger.info("%s is gone: %s", self.folder.path / name, fault)
                self._forget(name)
                return False
            if size != header.file_bytes:
                self._refuse(name, BadFile(f"it has {size} bytes, not {header.file_bytes}"))
                return False
            if self._ttl is not None and age > self._ttl:
                logger.info("%s was not used for %.0f s and has expired", self.folder.path / name, age)
                self._remove(name)
                return False
            return True

    def _refuse(self, name: str, fault: BadFile) -> None:
        """A file that is not used: a damaged one goes."""
        with self._lock:
            if fault.damaged:
                logger.warning("%s is damaged and dropped: %s", self.folder.path / name, fault)
                self._remove(name)
            else:
                logger.debug("%s is left alone: %s", self.folder.path / name, fault)
                self._forget(name)
            self._bad.add(name)

    def _remove(self, name: str) -> None:
        self._forget(name)
        try:
            self.folder.remove(name)
        except OSError as fault:
            logger.info("%s cannot be removed: %s", self.folder.path / name, fault)
            self._bad.add(name)

    def _add(self, header: Header) -> None:
        self._headers[header.name] = header
        for entry in header.entries:
            self._where[entry.key] = header.name

    def _forget(self, name: str) -> None:
        header = self._headers.pop(name, None)
        self._mapped.pop(name, None)
        for entry in header.entries if header else ():
            if self._where.get(entry.key) == name:
                del self._where[entry.key]
