"""The worker's end of a peer: one JSON value a line, a request in and an answer out.

Only the standard library: workers run in the peers' own virtual environments. What libraries print goes to stderr.

    {"do": "open", "model": ..., "dtype": ..., "max_tokens": N, "threads": N, "settings": {...}}  ->  {"version": ...}
    {"do": "store", "ids": [...]}                                                                 ->  {"ms": ...}
    {"do": "answer", "ids": [...], "stored": N, "max_new_tokens": N}  ->  {"token_ids": [...], "reused": N,
                                                                           "ttft_ms": ..., "later_ms": [...]}
    {"do": "ping"}  ->  {}

An answer to `answer` is timed by the worker from token ids to the first token; `reused` is what the library says it did
not compute. An exception is answered with {"error": ...}, and the worker goes on. The end of the input ends it.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Sequence
from typing import Any, Protocol


class Peer(Protocol):
    """A library that keeps the states of prompts."""

    version: str

    def store(self, ids: Sequence[int]) -> None:
        """Makes the states of these tokens ready for prompts that begin with them."""

    def answer(self, ids: Sequence[int], stored: int, max_new_tokens: int) -> dict[str, Any]:
        """A greedy reply to a prompt whose first `stored` tokens were stored last."""


class OpenPeer(Protocol):
    """Loads a model: a folder or a file, its dtype, room for so many tokens, threads, and settings of the peer."""

    def __call__(self, model: str, dtype: str, max_tokens: int, threads: int, settings: dict[str, Any]) -> Peer: ...


def serve(open_peer: OpenPeer) -> None:
    """Answers requests until the input ends."""
    with os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8") as out:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        peer: list[Peer] = []
        for line in sys.stdin:
            try:
                answer = _answer(open_peer, peer, json.loads(line))
            except BaseException as fault:
                traceback.print_exc()
                answer = {"error": f"{type(fault).__name__}: {fault}"}
            out.write(json.dumps(answer) + "\n")
            out.flush()


def _answer(open_peer: OpenPeer, peer: list[Peer], request: dict[str, Any]) -> dict[str, Any]:
    do = request.pop("do")
    if do == "open":
        peer.append(open_peer(**request))
        return {"version": peer[0].version}
    if do == "store":
        start = time.perf_counter()
        peer[0].store(request["ids"])
        return {"ms": (time.perf_counter() - start) * 1000}
    if do == "answer":
        return peer[0].answer(**request)
    assert do == "ping", do
    return {}
