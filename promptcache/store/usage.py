"""How often a file of the store was used, and when last: seen by all processes, kept without a lock.

Beside each file lies one that grows by a byte with every use: its length is the number of uses, its time the last one.
A folder that cannot be written to counts nothing.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

SUFFIX = ".uses"


@dataclass(frozen=True)
class Usage:
    """`used_at` is in seconds since the epoch, as the file system says; the time of writing where there was no use."""

    uses: int
    used_at: float


def note_use(path: Path) -> None:
    """One use of that file more, now."""
    with contextlib.suppress(OSError), open(path.with_suffix(SUFFIX), "ab") as file:
        file.write(b"+")


def usage(path: Path) -> Usage:
    """Uses so far. Raises OSError where the file itself is not there."""
    written_at = path.stat().st_mtime
    try:
        found = path.with_suffix(SUFFIX).stat()
    except OSError:
        return Usage(0, written_at)
    return Usage(found.st_size, max(found.st_mtime, written_at))


def remove(path: Path) -> None:
    """Removes a file of the store and the count of its uses. Raises OSError where it is there and cannot go."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    with contextlib.suppress(OSError):
        os.unlink(path.with_suffix(SUFFIX))
