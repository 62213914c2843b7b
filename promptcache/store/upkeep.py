"""What a person may do with a store's folder: look, verify, prune, remove."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import torch

from promptcache.store.base import Origin
from promptcache.store.folder import Folder, StoredFile
from promptcache.store.header import BadFile, Header
from promptcache.store.mapped import MappedFile
from promptcache.store.writing import remove_abandoned


@dataclass(frozen=True)
class StoredSchema:
    """A schema as it is stored for one model: sums over its files. Ages in seconds: since the first of them was
    written, since one was last used."""

    schema: str
    model: str
    layout: str
    encoding: str
    dtype: str
    codec: str
    files: int
    segments: int
    tokens: int
    num_bytes: int
    uses: int
    age: float
    idle: float


@dataclass(frozen=True)
class Pruned:
    """How many files went, and their bytes."""

    files: int = 0
    num_bytes: int = 0


def stored_schemas(folder: Folder) -> list[StoredSchema]:
    """What a folder holds, the last used first; files that cannot be used are left out."""
    groups: dict[tuple[Origin, torch.dtype, str], list[tuple[StoredFile, Header]]] = {}
    for file in folder.files():
        if (header := file.header) is not None:
            groups.setdefault((header.origin, header.dtype, header.codec_name), []).append((file, header))
    found = []
    for (origin, dtype, codec), pairs in groups.items():
        files, entries = [file for file, _ in pairs], [entry for _, header in pairs for entry in header.entries]
        made = StoredSchema(
            schema=origin.schema,
            model=origin.model,
            layout=origin.layout,
            encoding=origin.encoding,
            dtype=str(dtype).removeprefix("torch."),
            codec=codec,
            files=len(files),
            segments=len(entries),
            tokens=sum(entry.length for entry in entries),
            num_bytes=sum(file.num_bytes for file in files),
            uses=sum(file.uses for file in files),
            age=max(file.age for file in files),
            idle=min(file.idle for file in files),
        )
        found.append(made)
    return found


def verify(file: StoredFile) -> BadFile | None:
    """Reads all of a file. The reason why it cannot be used, or None."""
    if file.header is None:
        return file.fault
    try:
        MappedFile(file.path, file.header).read(entry.key for entry in file.header.entries)
    except BadFile as fault:
        return fault
    except OSError as fault:
        return BadFile(str(fault), damaged=False)
    return None


def prune(folder: Folder, *, unused_for: float | None = None, max_bytes: int | None = None) -> Pruned:
    """Removes what nobody can use: damaged files, those of other format versions, what killed writers left. Then those
    that were not used for so many seconds, then the least recently used until the rest takes `max_bytes`.

    Raises OSError where a file cannot go.
    """
    before = folder.num_bytes, len(folder.names())
    remove_abandoned(folder.path)
    remove(folder, lambda file: file.fault is not None or (unused_for is not None and file.idle > unused_for))
    if max_bytes is not None:
        folder.make_room(0, max_bytes)
    return Pruned(before[1] - len(folder.names()), before[0] - folder.num_bytes)


def remove_schemas(folder: Folder, names: Collection[str] | None) -> Pruned:
    """Removes all files of these schemas; None: all there are, usable or not. Raises OSError where one cannot go."""
    return remove(
        folder, lambda file: names is None or (file.header is not None and file.header.origin.schema in names)
    )


def remove(folder: Folder, unwanted: Callable[[StoredFile], bool]) -> Pruned:
    """Removes the unwanted files. Raises OSError where one cannot go."""
    going = [file for file in folder.files() if unwanted(file)]
    for file in going:
        folder.remove(file.path.name)
    return Pruned(len(going), sum(file.num_bytes for file in going))
