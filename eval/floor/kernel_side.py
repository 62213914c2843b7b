"""The attention kernel alone."""

from __future__ import annotations

import time
from typing import Any

import torch

from eval.floor.question import Question
from promptcache.kv.kernel import attend


class KernelSide:
    """Our CPU kernel over the shapes of a question's attention to its context: one call a layer over the whole context,
    query heads of a group folded into rows (promptcache/kv/segments.py). Nothing is merged and nothing else computed.

    `cache` holds the context's states; `num_heads` are those of queries.
    """

    name = "kernel"

    def __init__(self, cache: Any, num_heads: int, fresh: int) -> None:
        draw = torch.Generator().manual_seed(0)
        self._layers = []
        for layer in cache.layers:
            kv_heads, head_dim = layer.keys.shape[1], layer.keys.shape[3]
            query = torch.randn((1, kv_heads, num_heads // kv_heads * fresh, head_dim), generator=draw)
            self._layers.append((query.to(layer.keys.dtype), layer.keys, layer.values))
        self.forget()

    def forget(self) -> None:
        """See `Side`."""
        self._ms: list[float] = []

    def take(self, question: Question, later: bool) -> None:
        """See `Side`."""
        with torch.no_grad():
            start = time.perf_counter()
            for query, keys, values in self._layers:
                attend(query, keys, values, scale=keys.shape[-1] ** -0.5)
            self._ms.append((time.perf_counter() - start) * 1000)

    def figures(self) -> dict[str, Any]:
        """See `Side`."""
        return {"ttft_ms": self._ms}
