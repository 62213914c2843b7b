"""The head of a store's file: what lies in it, and where.

A file is safetensors: eight bytes with the length of the head, the head as JSON, then the tensors without gaps. It
holds the blocks of one arena, one tensor a layer and part; a segment is a range of rows in each. The file's name is the
digest of its head, and the head holds a checksum of each segment: no byte goes unchecked.
"""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from hashlib import blake2b
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO

import torch

from promptcache.kv.codec import Codec, Kind, codec
from promptcache.layout.encodings.key import FORMAT_VERSION, KeyContext, SegmentKey
from promptcache.store.base import Origin

Place = tuple[Kind, int, str]
"""Where a tensor belongs: keys or values, layer, the codec's part."""

SUFFIX = ".safetensors"
_NAME = re.compile(r"[0-9a-f]{40}\.safetensors")
_ALIGNMENT = 64
_LARGEST_HEAD = 64 << 20
_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "U8": torch.uint8,
}
_DTYPE_NAMES = {dtype: name for name, dtype in _DTYPES.items()}


class BadFile(Exception):
    """A file that cannot be used, with the reason. One of another version is not damaged: its own version reads it."""

    def __init__(self, reason: str, *, damaged: bool = True) -> None:
        super().__init__(reason)
        self.damaged = damaged


@dataclass(frozen=True)
class Entry:
    """A segment in a file: its first row and its length, in tokens, and the CRC-32 of its bytes in tensor order."""

    key: SegmentKey
    start: int
    length: int
    checksum: int


@dataclass(frozen=True)
class StoredTensor:
    """A tensor's dtype, shape [num_kv_heads, rows, width], and first byte behind the head."""

    dtype: torch.dtype
    shape: tuple[int, int, int]
    start: int

    @property
    def num_bytes(self) -> int:
        """Bytes that it takes."""
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True)
class Header:
    """`tensors` by (kind, layer, part), in the order of the file; `dtype` is that of the decoded states."""

    origin: Origin
    codec_name: str
    dtype: torch.dtype
    entries: tuple[Entry, ...]
    tensors: Mapping[Place, StoredTensor]

    @cached_property
    def codec(self) -> Codec:
        """The codec that made its tensors."""
        return codec(self.codec_name)

    @cached_property
    def encoded(self) -> bytes:
        """The first bytes of the file. Padded, so that tensors are aligned for every dtype."""
        facts = {
            "format": FORMAT_VERSION,
            "codec": self.codec_name,
            "dtype": _DTYPE_NAMES[self.dtype],
            "origin": asdict(self.origin),
            "segments": [[str(e.key), e.start, e.length, e.checksum] for e in self.entries],
        }
        described: dict[str, Any] = {"__metadata__": {"promptcache": json.dumps(facts, separators=(",", ":"))}}
        for (kind, layer, part), tensor in self.tensors.items():
            described[f"{kind}.{layer}.{part}" if part else f"{kind}.{layer}"] = {
                "dtype": _DTYPE_NAMES[tensor.dtype],
                "shape": list(tensor.shape),
                "data_offsets": [tensor.start, tensor.start + tensor.num_bytes],
            }
        text = json.dumps(described, separators=(",", ":")).encode()
        text += b" " * (-(8 + len(text)) % _ALIGNMENT)
        return struct.pack("<Q", len(text)) + text

    @cached_property
    def name(self) -> str:
        """The name of the file: the digest of its head."""
        return _name_of(self.encoded)

    @property
    def num_layers(self) -> int:
        """Layers of the model."""
        return 1 + max(layer for _, layer, _ in self.tensors)

    @property
    def data_bytes(self) -> int:
        """Bytes behind the head."""
        return sum(tensor.num_bytes for tensor in self.tensors.values())

    @property
    def file_bytes(self) -> int:
        """Bytes of the whole file."""
        return len(self.encoded) + self.data_bytes

    def rows(self, entry: Entry, place: Place) -> tuple[int, int]:
        """The first row and the number of rows of a segment in a tensor."""
        kind, _, part = place
        return self._first_rows[kind, part][entry.key], self.codec.rows(kind, part, entry.length)

    @cached_property
    def _first_rows(self) -> dict[tuple[Kind, str], dict[SegmentKey, int]]:
        found: dict[tuple[Kind, str], dict[SegmentKey, int]] = {}
        for kind, part in {(kind, part) for kind, _, part in self.tensors}:
            rows = accumulate((self.codec.rows(kind, part, e.length) for e in self.entries), initial=0)
            found[kind, part] = {entry.key: row for entry, row in zip(self.entries, rows, strict=False)}
        return found

    def ranges(self, entry: Entry) -> Iterable[tuple[int, int]]:
        """The bytes of a segment in the file, as (first, behind the last), in the order that its checksum has."""
        head = len(self.encoded)
        for place, tensor in self.tensors.items():
            first, rows = self.rows(entry, place)
            heads, all_rows, width = tensor.shape
            row_bytes = width * tensor.dtype.itemsize
            for number in range(heads):
                start = head + tensor.start + (number * all_rows + first) * row_bytes
                yield start, start + rows * row_bytes


def is_name(name: str) -> bool:
    """Whether a file of that name is one of ours."""
    return _NAME.fullmatch(name) is not None


def read_header(path: Path) -> Header:
    """The head of a file. Raises BadFile for anything that is not exactly what was written, OSError as `open`."""
    with open(path, "rb") as file:
        head = _read_head(file)
        size = file.seek(0, 2)
    if _name_of(head) != path.name:
        raise BadFile("its head is damaged")
    header = _parse(head)
    if size != header.file_bytes:
        raise BadFile(f"it has {size} bytes, not {header.file_bytes}")
    return header


def placed(shapes: Mapping[Place, tuple[torch.dtype, tuple[int, int, int]]]) -> dict[Place, StoredTensor]:
    """Tensors with their first bytes: the widest dtypes first, so that each is aligned."""
    made: dict[Place, StoredTensor] = {}
    start = 0
    for place, (dtype, shape) in sorted(shapes.items(), key=lambda each: -each[1][0].itemsize):
        made[place] = StoredTensor(dtype, shape, start)
        start += made[place].num_bytes
    return made


def _read_head(file: BinaryIO) -> bytes:
    prefix = file.read(8)
    if len(prefix) < 8:
        raise BadFile("it is cut off")
    (length,) = struct.unpack("<Q", prefix)
    if length > _LARGEST_HEAD:
        raise BadFile("its head is damaged")
    head = file.read(length)
    if len(head) < length:
        raise BadFile("it is cut off")
    return prefix + head


def _name_of(head: bytes) -> str:
    return blake2b(head, digest_size=20).hexdigest() + SUFFIX


def _parse(head: bytes) -> Header:
    """A head whose digest is right was written by us, by this version or by another one."""
    try:
        described = json.loads(head[8:])
        facts = json.loads(described.pop("__metadata__")["promptcache"])
        if facts["format"] != FORMAT_VERSION:
            raise BadFile(f"it has format version {facts['format']}, not {FORMAT_VERSION}", damaged=False)
        origin = dict(facts["origin"])
        context = KeyContext(**origin.pop("context"))
        tensors: dict[Place, StoredTensor] = {}
        for name, tensor in described.items():
            kind, layer, part = [*name.split("."), ""][:3]
            shape = tuple(tensor["shape"])
            tensors[kind, int(layer), part] = StoredTensor(_DTYPES[tensor["dtype"]], shape, tensor["data_offsets"][0])
        entries = tuple(Entry(SegmentKey(key), *numbers) for key, *numbers in facts["segments"])
        made = Header(Origin(**origin, context=context), facts["codec"], _DTYPES[facts["dtype"]], entries, tensors)
        codec(made.codec_name)
    except (KeyError, TypeError, ValueError) as fault:
        raise BadFile(f"its head is of another form ({fault})", damaged=False) from fault
    if made.encoded != head:
        raise BadFile("its head is of another form", damaged=False)
    return made
