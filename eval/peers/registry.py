"""The peers by name: libraries that keep states of prefixes, in settings that are compared."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping
from ctypes.util import find_library
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eval.peers.environment import environment_folder
from eval.peers.weights import float_gguf, gguf_file
from promptcache.errors import RequestError


@dataclass(frozen=True)
class PeerKind:
    """A peer in one setting. `package` names its environment, `worker` is the module that runs there. `weights(model,
    dtype, gguf)` gives what it loads, or raises RequestError with the reason why there is nothing; `environment`
    gives variables, which those that are set already win over."""

    package: str
    worker: str
    weights: Callable[[str, str, str | None], str]
    settings: Mapping[str, Any] = field(default_factory=dict)
    environment: Callable[[Path], Mapping[str, str]] = lambda _: {}


def _folder(model: str, dtype: str, gguf: str | None) -> str:
    return model


def _for_vllm(folder: Path) -> dict[str, str]:
    """All processors: by default vLLM keeps one free, which with two is half of them. And the libraries that its manual
    tells to load first, as far as they are there: Intel's OpenMP is in its environment."""
    openmp = folder / "lib" / "libiomp5.so"
    preloaded = [find_library("tcmalloc_minimal"), str(openmp) if openmp.exists() else None]
    return {
        "VLLM_CPU_OMP_THREADS_BIND": ",".join(map(str, sorted(os.sched_getaffinity(0)))),
        "LD_PRELOAD": ":".join(filter(None, preloaded)),
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
    }


def _vllm(**settings: Any) -> PeerKind:
    return PeerKind("vllm", "eval.peers.vllm_worker", _folder, settings, _for_vllm)


def _llama(weights: Callable[[str, str, str | None], str], **settings: Any) -> PeerKind:
    return PeerKind("llama-cpp", "eval.peers.llama_worker", weights, settings)


def _as_they_are(model: str, dtype: str, gguf: str | None) -> str:
    return str(gguf_file(model, gguf))


def _in_dtype(model: str, dtype: str, gguf: str | None) -> str:
    return str(float_gguf(gguf_file(model, gguf), dtype))


PEERS: dict[str, PeerKind] = {
    "vllm-128": _vllm(block_size=128, enforce_eager=True),
    "vllm-32": _vllm(block_size=32, enforce_eager=True),
    "vllm-32-compiled": _vllm(block_size=32),
    "llama.cpp": _llama(_in_dtype),
    "llama.cpp-flash": _llama(_in_dtype, flash_attn=True),
    "llama.cpp-as-stored": _llama(_as_they_are),
}
"""Name to peer. Blocks of 128 are vLLM's default; `as-stored` has the weights of the GGUF file, four bits for the
default model."""

DEFAULT_PEERS = tuple(name for name in PEERS if name != "vllm-32-compiled")
"""All that start in less than a minute."""


def find_peer(name: str) -> PeerKind:
    """The peer of that name. Raises RequestError with all names when there is none."""
    if name not in PEERS:
        close = difflib.get_close_matches(name, PEERS, n=1)
        guess = f"did you mean {close[0]!r}? " if close else ""
        raise RequestError(f"unknown peer {name!r}", hint=f"{guess}peers: {', '.join(PEERS)}")
    return PEERS[name]


def default_environment(kind: PeerKind) -> dict[str, str]:
    """The variables of this process, and those of the peer that are not set."""
    return {**kind.environment(environment_folder(kind.package)), **os.environ}
