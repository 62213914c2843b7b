"""The form in which states rest on disk: the contract of a codec, and the codecs by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, Protocol

import torch

from promptcache.errors import RequestError
from promptcache.kv.block import KVBlock

Kind = Literal["keys", "values"]


class Codec(Protocol):
    """Takes the states of one segment in one layer apart into tensors, and puts them together again.

    States are [num_kv_heads, seq_len, head_dim]; each part is [num_kv_heads, rows, width]. What was decoded once is
    encoded without a further loss: `decode(encode(decode(x)))` is `decode(x)`, to the bit.
    """

    name: str

    def parts(self, kind: Kind) -> tuple[str, ...]:
        """The names of the parts; the empty one is the states themselves, in another dtype at most."""

    def rows(self, kind: Kind, part: str, seq_len: int) -> int:
        """How many rows that part of `seq_len` tokens has."""

    def encode(self, kind: Kind, states: torch.Tensor) -> dict[str, torch.Tensor]:
        """The parts of the states, which must be finite."""

    def decode(self, kind: Kind, parts: Mapping[str, torch.Tensor], dtype: torch.dtype) -> torch.Tensor:
        """The states in that dtype; where `is_plain`, the part itself, without a copy."""

    def bound(self, kind: Kind, states: torch.Tensor) -> torch.Tensor:
        """The declared error: how far each number may be from its original. Broadcasts against the states."""

    def is_plain(self, dtype: torch.dtype) -> bool:
        """Whether states of that dtype rest as they are, so that they can be used where they lie."""


def settle(codec: Codec, block: KVBlock) -> KVBlock:
    """The block as it will be read back, so that the first answer is that of every later one."""
    if not block.keys or codec.is_plain(block.keys[0].dtype):
        return block

    def through(kind: Kind, layers: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        return tuple(codec.decode(kind, codec.encode(kind, layer), layer.dtype) for layer in layers)

    return KVBlock(through("keys", block.keys), through("values", block.values))


def codec(name: str) -> Codec:
    """The codec of that name. Raises RequestError for an unknown one."""
    from promptcache.kv.codec_cast import Cast
    from promptcache.kv.codec_int8 import Int8

    known: dict[str, Callable[[], Codec]] = {
        "none": lambda: Cast("none", None),
        "bf16": lambda: Cast("bf16", torch.bfloat16),
        "int8": Int8,
    }
    if name not in known:
        raise RequestError(f"unknown codec {name!r}", hint=f"known are: {', '.join(known)}")
    return known[name]()
