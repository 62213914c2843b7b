"""The one clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


class Stopwatch:
    """Milliseconds since it was made, and between laps.

    A device computes behind the thread that asks it to: `wait` returns when it is done, and is called at the end of
    each lap, so that a lap has the time of what it asked for.
    """

    def __init__(self, wait: Callable[[], None] = lambda: None) -> None:
        self._wait = wait
        self._start = self._lap = time.perf_counter()

    def lap(self) -> float:
        """Milliseconds since the last lap."""
        self._wait()
        now = time.perf_counter()
        elapsed, self._lap = now - self._lap, now
        return elapsed * 1000

    def total(self) -> float:
        """Milliseconds since the start."""
        return (time.perf_counter() - self._start) * 1000


@dataclass(frozen=True)
class Timings:
    """Milliseconds of one request. `ttft_ms` runs from the call to the first sampled token and contains parsing and
    planning, assembling (with any encoding that was waited for), prefill and sampling; `decode_ms` is all after it.

    Of a request in a batch they are what it waited: `plan_ms` for the plans of all prompts of the call, `assemble_ms`
    for a place in the batch, too, and `prefill_ms` and `decode_ms` for passes that served others with it."""

    ttft_ms: float
    plan_ms: float
    assemble_ms: float
    prefill_ms: float
    decode_ms: float
    total_ms: float
