"""vLLM with automatic prefix caching. Runs in vLLM's own virtual environment."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from typing import Any

from eval.peers.serving import serve

_STORE_BYTES = 2 << 30


class VllmPeer:
    """`settings` are arguments of vLLM's engine. It reuses whole blocks only, and says how many tokens that were."""

    def __init__(self, model: str, dtype: str, max_tokens: int, threads: int, settings: dict[str, Any]) -> None:
        """`threads` are set by the environment, which has to be ready before this process starts."""
        import vllm  # type: ignore[import-not-found]

        self._vllm = vllm
        self.version = f"vllm {vllm.__version__}"
        arguments: dict[str, Any] = {
            "model": model,
            "dtype": dtype,
            "max_model_len": max_tokens,
            "enable_prefix_caching": True,
            "kv_cache_memory_bytes": _STORE_BYTES,
            "max_num_seqs": 1,
            **settings,
        }
        self._engine = vllm.LLM(**arguments).llm_engine
        self._numbers = itertools.count()

    def store(self, ids: Sequence[int]) -> None:
        """See `Peer`. A request leaves its blocks in the prefix cache."""
        self.answer(ids, 0, 1)

    def answer(self, ids: Sequence[int], stored: int, max_new_tokens: int) -> dict[str, Any]:
        """See `Peer`."""
        params = self._vllm.SamplingParams(
            temperature=0.0, max_tokens=max_new_tokens, ignore_eos=True, detokenize=False
        )
        start = time.perf_counter()
        self._engine.add_request(f"request-{next(self._numbers)}", {"prompt_token_ids": list(ids)}, params)
        stamps: list[float] = []
        tokens: list[int] = []
        reused = 0
        while self._engine.has_unfinished_requests():
            for output in self._engine.step():
                now, found = time.perf_counter(), list(output.outputs[0].token_ids)
                stamps += [now] * (len(found) - len(tokens))
                tokens, reused = found, output.num_cached_tokens or 0
        later = [(second - first) * 1000 for first, second in itertools.pairwise(stamps)]
        return {"token_ids": tokens, "reused": reused, "ttft_ms": (stamps[0] - start) * 1000, "later_ms": later}


if __name__ == "__main__":
    serve(VllmPeer)
