"""Token ids to text, piece by piece: no broken characters, and stop strings neither leaked nor lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence

_BROKEN = "\N{REPLACEMENT CHARACTER}"


class TextStream:
    """Feeds on sampled tokens and gives text that can be shown.

    A piece is held back while its last character is incomplete, or while its end may be the start of a stop string.
    All pieces joined, `flush()` included, are the text of the reply.
    """

    def __init__(self, decode: Callable[[Sequence[int]], str], stop: Sequence[str] = ()) -> None:
        self._decode = decode
        self._stop = tuple(stop)
        self._ids: list[int] = []
        self._anchor = 0  # tokens before it are out; those up to _read give the context that decoding needs
        self._read = 0
        self._held = ""
        self.stopped = False

    def push(self, token: int) -> str:
        """The text that one more token sets free. After a stop string was found, `stopped` is true."""
        self._ids.append(token)
        shown = self._decode(self._ids[self._anchor : self._read])
        text = self._decode(self._ids[self._anchor :])
        if text.endswith(_BROKEN):
            return ""
        self._anchor, self._read = self._read, len(self._ids)
        return self._release(text[len(shown) :])

    def flush(self) -> str:
        """What is still held back, at the end of a reply."""
        shown = self._decode(self._ids[self._anchor : self._read])
        rest = self._decode(self._ids[self._anchor :])[len(shown) :]
        self._anchor = self._read = len(self._ids)
        out = "" if self.stopped else self._release(rest) + ("" if self.stopped else self._held)
        self._held = ""
        return out

    def _release(self, text: str) -> str:
        text = self._held + text
        found = [at for stop in self._stop if (at := text.find(stop)) >= 0]
        if found:
            self.stopped, self._held = True, ""
            return text[: min(found)]
        keep = max((_overlap(text, stop) for stop in self._stop), default=0)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of `text` that begins `stop`."""
    return next((n for n in range(min(len(text), len(stop) - 1), 0, -1) if text.endswith(stop[:n])), 0)
