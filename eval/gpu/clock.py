"""The time that is left."""

from __future__ import annotations

import time
from collections.abc import Callable


class Clock:
    """Runs from when it is made. `takes` remembers how long steps of a kind took, and tells how long the next will."""

    def __init__(self, minutes: float, now: Callable[[], float] = time.monotonic) -> None:
        self._now, self._end = now, now() + 60 * minutes
        self._known: dict[str, tuple[int, float]] = {}

    def left(self) -> float:
        """Seconds."""
        return self._end - self._now()

    def allows(self, kind: str, size: int) -> bool:
        """Whether a step of that kind and size is expected to end in time. Cost is taken to grow with the square of the
        size, which is more than it does; a kind that was never seen is tried while a quarter of a minute is left."""
        if kind not in self._known:
            return self.left() > 15
        known_size, seconds = self._known[kind]
        return self.left() > seconds * max(1.0, size / known_size) ** 2

    def took(self, kind: str, size: int, started: float) -> None:
        """A step is done that began with so much time left."""
        self._known[kind] = size, started - self.left()
