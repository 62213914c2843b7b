"""The stock model as a baseline: `model(ids, logits_to_keep=1)`, with none of our code around it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import torch


def stock_ttft_ms(model: Any, ids: Sequence[int]) -> float:
    """Milliseconds from token ids to the first new token, greedy, by one plain forward pass."""
    start = time.perf_counter()
    with torch.no_grad():
        int(model(torch.tensor([ids], device=model.device), logits_to_keep=1).logits[0, -1].argmax())
    return (time.perf_counter() - start) * 1000
