"""The folder of a store: its files, how much room they take, and which go first."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from promptcache.errors import StoreError
from promptcache.store import usage
from promptcache.store.header import BadFile, Header, is_name, read_header
from promptcache.store.writing import Packed, remove_abandoned, write


@dataclass(frozen=True)
class StoredFile:
    """A file as `promptcache store` shows it: `header` is None where it cannot be used, for the reason in `fault`.
    Ages in seconds, since it was written and since it was used last."""

    path: Path
    num_bytes: int
    uses: int
    age: float
    idle: float
    header: Header | None
    fault: BadFile | None = None


class Folder:
    """Only files whose names are ours are seen, counted or removed; whatever else lies there is left alone.

    Nothing is created before the first file is written.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        """Raises StoreError for a path that is there and is no folder."""
        self.path = path
        self._clock = clock
        if path.exists() and not path.is_dir():
            raise StoreError(f"{path} is no folder", hint="name a folder for the store; it need not exist yet")

    def names(self) -> set[str]:
        """The names of our files; none where the folder is not there or cannot be read."""
        try:
            with os.scandir(self.path) as found:
                return {entry.name for entry in found if is_name(entry.name)}
        except OSError:
            return set()

    def header(self, name: str) -> Header:
        """What a file holds. Raises BadFile, OSError."""
        return read_header(self.path / name)

    def size_and_age(self, name: str) -> tuple[int, float]:
        """Bytes, and seconds since the last use. A time that lies ahead, since the clock was moved back, counts as now.
        Raises OSError."""
        path = self.path / name
        return path.stat().st_size, max(0.0, self._clock() - usage.usage(path).used_at)

    @property
    def num_bytes(self) -> int:
        """Bytes of all our files, the counts of uses left out."""
        return sum(size for size, _, _ in self._by_use())

    def write(self, packed: Packed) -> Path:
        """Adds a file. Raises OSError and leaves nothing behind then."""
        remove_abandoned(self.path)
        return write(self.path, packed)

    def make_room(self, wanted: int, budget_bytes: int, *, spare: Collection[str] = ()) -> int:
        """Removes the files that were not used for longest until `wanted` bytes fit the budget, those to `spare` last.
        Returns how many went. Raises OSError where one cannot go."""
        files = sorted(self._by_use(), key=lambda each: (each[2] in spare, each[1]))
        total, gone = sum(size for size, _, _ in files), 0
        for size, _, name in files:
            if total + wanted <= budget_bytes:
                break
            self.remove(name)
            total, gone = total - size, gone + 1
        return gone

    def refresh(self, name: str) -> None:
        """Counts as used now, without a use more."""
        path = (self.path / name).with_suffix(usage.SUFFIX)
        with contextlib.suppress(OSError):
            path.touch()

    def remove(self, name: str) -> None:
        """Removes a file. Raises OSError where it cannot go."""
        usage.remove(self.path / name)

    def files(self) -> list[StoredFile]:
        """All our files, damaged ones and those of other versions included, the last used first."""
        found: list[StoredFile] = []
        for name in self.names():
            path, header, fault = self.path / name, None, None
            try:
                stat, use = path.stat(), usage.usage(path)
                header = read_header(path)
            except FileNotFoundError:
                continue
            except BadFile as bad:
                fault = bad
            except OSError as bad:
                fault = BadFile(str(bad), damaged=False)
                if not path.exists():
                    continue
            now = self._clock()
            age, idle = (max(0.0, now - at) for at in (stat.st_mtime, use.used_at))
            found.append(StoredFile(path, stat.st_size, use.uses, age, idle, header, fault))
        return sorted(found, key=lambda file: (file.idle, file.path))

    def _by_use(self) -> list[tuple[int, float, str]]:
        """(bytes, last use, name) of each file."""
        found: list[tuple[int, float, str]] = []
        for name in self.names():
            with contextlib.suppress(OSError):
                path = self.path / name
                found.append((path.stat().st_size, usage.usage(path).used_at, name))
        return found
