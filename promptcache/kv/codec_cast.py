"""Codecs `none` and `bf16`: states as they are, or in another dtype."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from promptcache.kv.codec import Kind


class Cast:
    """See `Codec`. bfloat16 keeps 8 significant bits: half the bytes of float32, and the exponents of it, so that no
    state is out of range."""

    def __init__(self, name: str, dtype: torch.dtype | None) -> None:
        self.name = name
        self._dtype = dtype

    def parts(self, kind: Kind) -> tuple[str, ...]:
        """See `Codec`."""
        return ("",)

    def rows(self, kind: Kind, part: str, seq_len: int) -> int:
        """See `Codec`."""
        return seq_len

    def encode(self, kind: Kind, states: torch.Tensor) -> dict[str, torch.Tensor]:
        """See `Codec`."""
        return {"": states.to(self._dtype or states.dtype)}

    def decode(self, kind: Kind, parts: Mapping[str, torch.Tensor], dtype: torch.dtype) -> torch.Tensor:
        """See `Codec`."""
        return parts[""].to(dtype)

    def bound(self, kind: Kind, states: torch.Tensor) -> torch.Tensor:
        """See `Codec`."""
        if self.is_plain(states.dtype):
            return torch.zeros((1, 1, 1), device=states.device)
        return states.float().abs() * 2.0**-8 + torch.finfo(torch.bfloat16).tiny

    def is_plain(self, dtype: torch.dtype) -> bool:
        """See `Codec`."""
        return self._dtype in (None, dtype)
