"""A peer that needs no library: its time to the first token is planted, and its settings say how it fails."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from typing import Any

from eval.peers.serving import serve


class FakePeer:
    """`settings`: `ttft_ms`; `child`: starts a process that outlives it; `fail`: `open`, `exit`, `answer`, `late` or
    none; `after`: answers before it fails."""

    def __init__(self, model: str, dtype: str, max_tokens: int, threads: int, settings: dict[str, Any]) -> None:
        print("what a library prints is no answer")
        if settings.get("fail") == "open":
            raise ImportError("no module named quick")
        if settings.get("fail") == "exit":
            os._exit(3)
        if settings.get("child"):
            self.child = subprocess.Popen(["sleep", "600"])
        self.version = f"fake 1 in {dtype}, room {max_tokens}"
        self._settings, self._stored, self._answers = settings, 0, 0

    def store(self, ids: Sequence[int]) -> None:
        self._stored = len(ids)

    def answer(self, ids: Sequence[int], stored: int, max_new_tokens: int) -> dict[str, Any]:
        assert stored == self._stored
        self._answers += 1
        if self._answers > self._settings.get("after", 0):
            if self._settings.get("fail") == "answer":
                raise ValueError("out of blocks")
            if self._settings.get("fail") == "late":
                time.sleep(60)
        later = [2.0] * (max_new_tokens - 1)
        return {"token_ids": [7] * max_new_tokens, "reused": stored - 1, "ttft_ms": self._ms(), "later_ms": later}

    def _ms(self) -> float:
        ms: float = self._settings.get("ttft_ms", 1000.0)
        return ms


if __name__ == "__main__":
    serve(FakePeer)
