"""Codec `int8`: eight bits a number, keys by channel and values by token.

Keys have channels with outliers in every token, values have not: so a key's range is taken over the tokens of a group
for each channel, a value's over the channels of each token (KIVI, Liu et al., ICML 2024, section 3).
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from promptcache.kv.codec import Kind

_GROUP = 64
"""Tokens that share a key's range: wide enough that ranges take an eighth of the bytes of the numbers."""

_LEVELS = 255


class Int8:
    """See `Codec`. A number is stored as its place between the lowest and the highest of its range; both ends come back
    as they were, so that a range is found again when what was decoded is encoded."""

    name = "int8"

    def parts(self, kind: Kind) -> tuple[str, ...]:
        """See `Codec`."""
        return ("", "low", "high")

    def rows(self, kind: Kind, part: str, seq_len: int) -> int:
        """See `Codec`."""
        return -(-seq_len // _GROUP) if kind == "keys" and part else seq_len

    def encode(self, kind: Kind, states: torch.Tensor) -> dict[str, torch.Tensor]:
        """See `Codec`."""
        low, high = _range(kind, states)
        length = states.shape[1]
        bottom, top = (_spread(kind, end.float(), length) for end in (low, high))
        scaled = (states.float() - bottom) * (_LEVELS / (top - bottom).clamp_min(torch.finfo(torch.float32).tiny))
        return {"": scaled.round().clamp(0, _LEVELS).to(torch.uint8), "low": low, "high": high}

    def decode(self, kind: Kind, parts: Mapping[str, torch.Tensor], dtype: torch.dtype) -> torch.Tensor:
        """See `Codec`."""
        places = parts[""]
        low, high = (_spread(kind, parts[end].float(), places.shape[1]) for end in ("low", "high"))
        return torch.lerp(low, high, places.float() / _LEVELS).to(dtype)

    def bound(self, kind: Kind, states: torch.Tensor) -> torch.Tensor:
        """Half a step of the range, and what rounding to the dtype may add."""
        low, high = (_spread(kind, end.float(), states.shape[1]) for end in _range(kind, states))
        rounding = torch.maximum(low.abs(), high.abs()) * torch.finfo(states.dtype).eps * 2
        return (high - low) / (2 * _LEVELS) + rounding

    def is_plain(self, dtype: torch.dtype) -> bool:
        """See `Codec`."""
        return False


def _range(kind: Kind, states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Lowest and highest: [num_kv_heads, groups, head_dim] for keys, [num_kv_heads, seq_len, 1] for values."""
    if kind == "values":
        low, high = states.aminmax(dim=2, keepdim=True)
        return low, high
    starts = range(0, states.shape[1], _GROUP)
    groups = [states[:, start : start + _GROUP].aminmax(dim=1, keepdim=True) for start in starts]
    return torch.cat([low for low, _ in groups], dim=1), torch.cat([high for _, high in groups], dim=1)


def _spread(kind: Kind, ends: torch.Tensor, length: int) -> torch.Tensor:
    """A range's end for each token."""
    return ends if kind == "values" else ends.repeat_interleave(_GROUP, dim=1)[:, :length]
