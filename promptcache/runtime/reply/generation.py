"""One request's reply, piece by piece."""

from __future__ import annotations

from collections.abc import Generator, Iterator

from promptcache.errors import RequestError
from promptcache.runtime.reply.completion import Completion
from promptcache.runtime.reply.reply import Reply
from promptcache.runtime.states.state import attention_state


class Generation:
    """Iterating gives the reply's text as it comes; afterwards `completion` holds the result.

    The work begins with the first step of the iteration. It can be abandoned at any time, with `close`, `with`, or by
    dropping it: the blocks that it uses are given back, and nothing that is shared was written to.
    """

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        # A function of its own, so that nothing refers to itself: what is dropped is gone at once.
        self._pieces = _pieces(reply)

    def __iter__(self) -> Iterator[str]:
        return self._pieces

    def finish(self) -> Completion:
        """Runs to the end, and gives the result."""
        for _ in self._pieces:
            pass
        return self.completion

    @property
    def completion(self) -> Completion:
        """The finished reply. Raises RequestError while the iteration is not at its end."""
        if self._reply.completion is None:
            raise RequestError("the reply is not finished", hint="iterate over it to the end first")
        return self._reply.completion

    def close(self) -> None:
        """Gives up what is left of it."""
        self._pieces.close()

    def __enter__(self) -> Generation:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _pieces(reply: Reply) -> Generator[str]:
    settled = reply.settle()
    with settled.blocks:
        state = attention_state(reply.attention, reply.adapter, settled.plan, settled.blocks, reply.room)
        reply.assembled()
        ended = reply.take(state.prefill()[-1])
        while not ended:
            if reply.piece:
                yield reply.piece
            ended = reply.take(state.step(reply.token))
        reply.finish(state)
        if reply.piece:
            yield reply.piece
