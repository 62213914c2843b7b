"""Blocks into a file, whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from promptcache.kv.codec import Codec
from promptcache.store.base import Blocks, Origin
from promptcache.store.checksum import checksum
from promptcache.store.header import Entry, Header, Place, placed
from promptcache.store.placement import in_order

ABANDONED_AFTER_S = 600.0
"""A temporary file that nobody wrote to for so long is that of a writer that was killed."""


class Packed:
    """Blocks in the form of a file, not written yet."""

    def __init__(self, blocks: Blocks, origin: Origin, codec: Codec) -> None:
        """The blocks have the same layers, heads and dtype, and at least one token each."""
        ordered = in_order(blocks)
        self._parts: dict[Place, list[torch.Tensor]] = {}
        for _, block in ordered:
            for kind in ("keys", "values"):
                for layer, states in enumerate(block.keys if kind == "keys" else block.values):
                    for part, tensor in codec.encode(kind, states).items():
                        self._parts.setdefault((kind, layer, part), []).append(tensor.cpu())
        shapes = {
            place: (parts[0].dtype, (parts[0].shape[0], sum(part.shape[1] for part in parts), parts[0].shape[2]))
            for place, parts in self._parts.items()
        }
        tensors = placed(shapes)
        entries, start = [], 0
        for number, (key, block) in enumerate(ordered):
            pieces = (
                _bytes(self._parts[place][number][head]) for place in tensors for head in range(shapes[place][1][0])
            )
            entries.append(Entry(key, start, block.seq_len, checksum(pieces)))
            start += block.seq_len
        self.header = Header(origin, codec.name, ordered[0][1].keys[0].dtype, tuple(entries), tensors)

    def chunks(self) -> Iterator[memoryview]:
        """The bytes of the file, a tensor at a time."""
        yield memoryview(self.header.encoded)
        for place in self.header.tensors:
            yield _bytes(torch.cat(self._parts[place], dim=1))


def write(folder: Path, packed: Packed) -> Path:
    """Writes a file under its name. Nobody ever sees half of it: it gets the name when it is whole and on the disk.

    Raises OSError, and leaves nothing behind then.
    """
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / packed.header.name
    temporary = folder / f".{target.stem}.{secrets.token_hex(4)}.tmp"
    try:
        with open(temporary, "xb") as file:
            for chunk in packed.chunks():
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    return target


def remove_abandoned(folder: Path) -> int:
    """Removes what killed writers left behind; returns how many files."""
    removed = 0
    for path in folder.glob(".*.tmp"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > ABANDONED_AFTER_S:
                path.unlink()
                removed += 1
    return removed


def _bytes(tensor: torch.Tensor) -> memoryview:
    """A tensor's bytes, without a copy where it is contiguous."""
    found: Any = tensor.contiguous().view(-1).view(torch.uint8).numpy()
    return memoryview(found)
