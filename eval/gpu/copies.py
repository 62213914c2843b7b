"""What copying stored states takes: the paper's figures for a layer of 5,000 tokens."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

from eval.gpu.bench import Bench

_REPEATS = 10


def measure(bench: Bench) -> dict[str, Any]:
    """Milliseconds for the keys and values of one layer, medians over some copies: `host` to host, from page-locked
    memory to the device (`up`), `device` to device. On the CPU all are the same copy."""
    config, device = bench.model.config, bench.model.device
    head_dim = config.hidden_size // config.num_attention_heads
    shape = (2, bench.settings.copied, config.num_key_value_heads, head_dim)

    def room(where: torch.device, locked: bool = False) -> torch.Tensor:
        return torch.zeros(shape, dtype=bench.model.dtype, device=where, pin_memory=locked)

    cpu = torch.device("cpu")
    pairs = {
        "host": (room(cpu), room(cpu)),
        "up": (room(cpu, bench.on_cuda), room(device)),
        "device": (room(device), room(device)),
    }
    found = {name: _timed(bench, lambda pair=pair: pair[1].copy_(pair[0])) for name, pair in pairs.items()}
    return {"tokens": bench.settings.copied, "num_bytes": pairs["host"][0].nbytes, "ms": found}


def _timed(bench: Bench, copy: Callable[[], object]) -> float:
    times = []
    for _ in range(_REPEATS):
        start = time.perf_counter()
        copy()
        if bench.on_cuda:
            torch.cuda.synchronize()
        times.append((time.perf_counter() - start) * 1000)
    return sorted(times)[_REPEATS // 2]
