"""Identity of stored states: content, never memory addresses or Python's hash()."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from hashlib import blake2b

FORMAT_VERSION = 1
"""Changes whenever equal fields would give other states or another form of them."""


@dataclass(frozen=True, order=True)
class SegmentKey:
    """Digest of all that decides a segment's states."""

    digest: str

    def __str__(self) -> str:
        return self.digest


@dataclass(frozen=True)
class KeyContext:
    """What all segments of an engine share. `namespace` is empty for what the operator loaded."""

    model: str
    tokenizer: str
    dtype: str
    codec: str = "none"
    namespace: str = ""
    version: int = FORMAT_VERSION

    def key(
        self,
        ids: Sequence[int],
        *,
        saw: Iterable[tuple[int, int]],
        start: int | None,
        within: Iterable[SegmentKey] = (),
    ) -> SegmentKey:
        """The key of a segment: its token ids; `saw`, the (relative position, id) of each token before it that was in
        view; and its start position, None when its states can be moved. `within`: the stored segments among those
        tokens, where their states are not the ones that the tokens alone decide."""
        digest = blake2b(digest_size=20)
        for field in fields(self):
            _feed(digest, str(getattr(self, field.name)).encode())
        _feed(digest, struct.pack(f"<{len(ids)}q", *ids))
        flat = [number for pair in saw for number in pair]
        _feed(digest, struct.pack(f"<{len(flat)}q", *flat))
        _feed(digest, b"" if start is None else struct.pack("<q", start))
        for other in within:
            _feed(digest, other.digest.encode())
        return SegmentKey(digest.hexdigest())


def _feed(digest: blake2b, field: bytes) -> None:
    """Adds a field with its length in front, so that no two lists of fields look alike."""
    digest.update(struct.pack("<Q", len(field)))
    digest.update(field)
