"""A peer in its own process, asked one question at a time."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from promptcache.errors import PromptCacheError

_ROOT = Path(__file__).resolve().parents[2]
_CLOSING_S = 20.0


class PeerError(PromptCacheError):
    """A peer that cannot be started or does not answer; the message says why, and the peer is left out."""


class PeerProcess:
    """A worker (eval/peers/serving.py) that was started here. Close it, or use it in `with`.

    Between questions all its processes are stopped: threads that wait for work by spinning would take time from the
    other sides.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        """`log` gets what the peer prints. Raises PeerError when it cannot be started."""
        self._log = log
        try:
            with log.open("ab") as errors:
                self._process = subprocess.Popen(
                    command,
                    cwd=_ROOT,
                    env={**environment, "PYTHONPATH": str(_ROOT)},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    text=True,
                    # A group of its own, so that what the peer starts is stopped and ended with it.
                    start_new_session=True,
                )
        except OSError as fault:
            raise PeerError(f"{command[0]} cannot be started: {fault}") from fault
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def ask(self, request: Mapping[str, Any], *, timeout_s: float) -> dict[str, Any]:
        """The worker's answer. Raises PeerError for none in that time, or one that says what went wrong."""
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._lines.get(timeout=timeout_s)
        except queue.Empty:
            raise PeerError(f"no answer to {request['do']!r} in {timeout_s:.0f} s", hint=f"see {self._log}") from None
        except OSError:
            line = ""
        try:
            answer: dict[str, Any] = json.loads(line)
        except ValueError:
            raise PeerError(f"its process ended: {self._last_words()}", hint=f"see {self._log}") from None
        if "error" in answer:
            raise PeerError(answer["error"], hint=f"see {self._log}")
        return answer

    @contextmanager
    def awake(self) -> Iterator[None]:
        """Within it the peer runs, outside it is stopped; the first time it has been running since its start."""
        self._signal(signal.SIGCONT)
        try:
            yield
        finally:
            self._signal(signal.SIGSTOP)

    def close(self) -> None:
        """Ends the worker and all that it started."""
        self._signal(signal.SIGCONT)
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=_CLOSING_S)
        self._signal(signal.SIGKILL)
        self._process.wait()
        self._reader.join(timeout=_CLOSING_S)

    def __enter__(self) -> PeerProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as answers:
            for line in answers:
                self._lines.put(line)
        self._lines.put("")

    def _signal(self, number: int) -> None:
        # The group is gone when all its processes have ended.
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def _last_words(self) -> str:
        lines = [line.strip() for line in self._log.read_text(encoding="utf-8", errors="replace").splitlines()]
        return next((line for line in reversed(lines) if line), "it said nothing")
