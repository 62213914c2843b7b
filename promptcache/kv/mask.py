"""Additive masks by position."""

from __future__ import annotations

import torch


def visibility_mask(
    query_positions: torch.Tensor,
    key_positions: torch.Tensor,
    dtype: torch.dtype,
    window: int | None = None,
    among: torch.Tensor | None = None,
) -> torch.Tensor:
    """[1, 1, queries, keys]: 0 where a query sees a key, the dtype's lowest value elsewhere.

    A query at position p sees keys at positions up to p; with a window only those above p - window. Positions are
    int64 vectors. Slots play no part: a window counts positions, also across gaps. `among`, additive [n, n], says in
    place of their order what the last n queries see of the last n keys; a window narrows that, too.
    """
    distance = query_positions[:, None] - key_positions[None, :]
    hidden = distance < 0
    if among is not None:
        size = len(among)
        hidden[-size:, -size:] = among.to(hidden.device) < 0
    if window is not None:
        hidden |= distance >= window
    mask = torch.zeros(hidden.shape, dtype=dtype, device=query_positions.device)
    return mask.masked_fill_(hidden, torch.finfo(dtype).min)[None, None]
