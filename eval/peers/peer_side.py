"""A peer as one side of a comparison."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from eval.config import EvalConfig
from eval.floor.question import LATER_TOKENS, Question, mean_or_none
from eval.peers.environment import environment_python
from eval.peers.process import PeerError, PeerProcess
from eval.peers.registry import default_environment, find_peer

_OPENING_S, _STORING_S, _ANSWERING_S = 900.0, 300.0, 120.0


class PeerSide:
    """See `Side`. A peer that fails is closed and says why in `failure`; from then on it takes no part, and its figures
    mean nothing."""

    def __init__(self, name: str, process: PeerProcess, version: str) -> None:
        self.name, self.version = name, version
        self.failure: str | None = None
        self._process = process
        self._context: tuple[int, ...] = ()
        self.forget()

    @classmethod
    def open(cls, name: str, config: EvalConfig, model: str, max_tokens: int, threads: int, log: Path) -> PeerSide:
        """Starts the peer and loads the model into it. Raises PeerError, RequestError with the reason why not."""
        kind = find_peer(name)
        python = environment_python(kind.package)
        if not python.exists():
            raise PeerError(f"not installed; python -m eval.peers.install {kind.package} does it")
        weights = kind.weights(model, config.dtype, config.options.get("gguf"))
        process = PeerProcess([str(python), "-m", kind.worker], default_environment(kind), log)
        try:
            request = {"do": "open", "model": weights, "dtype": config.dtype, "max_tokens": max_tokens}
            request |= {"threads": threads, "settings": dict(kind.settings)}
            with process.awake():
                version = process.ask(request, timeout_s=_OPENING_S)["version"]
        except BaseException:
            process.close()
            raise
        return cls(name, process, version)

    def store(self, context: Sequence[int]) -> None:
        """Makes a context's states ready. The times so far belong to another one."""
        self._context = tuple(context)
        self.forget()
        self._try({"do": "store", "ids": list(context)}, _STORING_S)

    def forget(self) -> None:
        """See `Side`."""
        self._times: dict[str, list[float | None]] = {"ttft_ms": [], "later_ms": []}
        self._reused: list[int] = []
        self._firsts: list[int] = []

    def take(self, question: Question, later: bool) -> None:
        """See `Side`; the peer reports what it reused, and no hook proves it."""
        ids = [*self._context, *question.ids]
        tokens = 1 + later * LATER_TOKENS
        request = {"do": "answer", "ids": ids, "stored": len(self._context), "max_new_tokens": tokens}
        answer = self._try(request, _ANSWERING_S)
        if answer is not None:
            self._times["ttft_ms"].append(answer["ttft_ms"])
            self._times["later_ms"].append(mean_or_none(answer["later_ms"]))
            self._reused.append(answer["reused"])
            self._firsts.append(answer["token_ids"][0])

    def figures(self) -> dict[str, Any]:
        """See `Side`; `reused` and the first token of each turn, and what the peer is."""
        return {**self._times, "reused": self._reused, "first_tokens": self._firsts, "version": self.version}

    def close(self) -> None:
        """Ends it."""
        self._process.close()

    def _try(self, request: dict[str, Any], timeout_s: float) -> dict[str, Any] | None:
        if self.failure is not None:
            return None
        try:
            with self._process.awake():
                # So that waking up is not in the figures.
                self._process.ask({"do": "ping"}, timeout_s=_ANSWERING_S)
                return self._process.ask(request, timeout_s=timeout_s)
        except PeerError as fault:
            self.failure = fault.message
            self.close()
            return None
