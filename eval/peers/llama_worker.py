"""llama.cpp with the prefix kept in its context. Runs in llama-cpp-python's own virtual environment."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from typing import Any

from eval.peers.serving import serve


class LlamaPeer:
    """`settings` are arguments of `llama_cpp.Llama`. What a question adds is taken off the context before the next."""

    def __init__(self, model: str, dtype: str, max_tokens: int, threads: int, settings: dict[str, Any]) -> None:
        """The file says the weights' dtype."""
        import llama_cpp  # type: ignore[import-not-found]
        import numpy

        self._library, self._numpy = llama_cpp, numpy
        self.version = f"llama-cpp-python {llama_cpp.__version__}"
        self._llama = llama_cpp.Llama(
            model_path=model,
            n_ctx=max_tokens,
            n_threads=threads,
            n_threads_batch=threads,
            verbose=False,
            **settings,
        )
        self._stored = 0

    def store(self, ids: Sequence[int]) -> None:
        """See `Peer`. `eval` drops what its context holds behind `n_tokens` first."""
        self._llama.reset()
        self._llama.eval(list(ids))
        self._stored = self._llama.n_tokens

    def answer(self, ids: Sequence[int], stored: int, max_new_tokens: int) -> dict[str, Any]:
        """See `Peer`."""
        assert stored == self._stored, "the context holds another prefix"
        start = time.perf_counter()
        self._llama.n_tokens = stored
        self._llama.eval(list(ids[stored:]))
        tokens, stamps = [self._likeliest()], [time.perf_counter()]
        while len(tokens) < max_new_tokens:
            self._llama.eval(tokens[-1:])
            tokens.append(self._likeliest())
            stamps.append(time.perf_counter())
        later = [(second - first) * 1000 for first, second in itertools.pairwise(stamps)]
        return {"token_ids": tokens, "reused": stored, "ttft_ms": (stamps[0] - start) * 1000, "later_ms": later}

    def _likeliest(self) -> int:
        """By the library's own function; its Python sampler would be built anew for every token."""
        logits = self._library.llama_get_logits_ith(self._llama.ctx, -1)
        return int(self._numpy.ctypeslib.as_array(logits, shape=(self._llama.n_vocab(),)).argmax())


if __name__ == "__main__":
    serve(LlamaPeer)
