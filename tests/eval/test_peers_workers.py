"""The workers against libraries that behave as the real ones say they do."""

from __future__ import annotations

import ctypes
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from eval.peers.llama_worker import LlamaPeer
from eval.peers.serving import Peer
from eval.peers.vllm_worker import VllmPeer


class _Llama:
    """Keeps the ids that its context holds; predicts the sum of all of them, modulo its vocabulary."""

    def __init__(self, **arguments: Any) -> None:
        self.arguments, self.n_tokens, self.ctx = arguments, 0, self
        self.held: list[int] = []
        self.passes: list[int] = []

    def reset(self) -> None:
        self.n_tokens = 0

    def eval(self, tokens: list[int]) -> None:
        self.held[self.n_tokens :] = tokens
        self.n_tokens += len(tokens)
        self.passes.append(len(tokens))
        assert self.n_tokens <= self.arguments["n_ctx"]

    def n_vocab(self) -> int:
        return 11


def _logits(llama: _Llama, row: int) -> Any:
    assert row == -1
    return (ctypes.c_float * 11)(*(float(token == sum(llama.held) % 11) for token in range(11)))


class _Engine:
    """Blocks of four tokens; gives a token each step, and all so far each time."""

    def __init__(self) -> None:
        self.blocks: set[tuple[int, ...]] = set()
        self.names: list[str] = []
        self.request: tuple[list[int], list[int], int, int] | None = None

    def add_request(self, name: str, prompt: dict[str, list[int]], params: Any) -> None:
        ids = prompt["prompt_token_ids"]
        assert name not in self.names and params.temperature == 0 and params.ignore_eos
        self.names.append(name)
        cached = max((len(block) for block in self.blocks if tuple(ids[: len(block)]) == block), default=0)
        self.blocks |= {tuple(ids[:end]) for end in range(4, len(ids) + 1, 4)}
        self.request = (ids, [], params.max_tokens, min(cached, len(ids) - 1))

    def has_unfinished_requests(self) -> bool:
        return self.request is not None

    def step(self) -> list[Any]:
        assert self.request is not None
        ids, made, most, cached = self.request
        made.append(sum(ids + made) % 11)
        if len(made) == most:
            self.request = None
        return [SimpleNamespace(outputs=[SimpleNamespace(token_ids=tuple(made))], num_cached_tokens=cached)]


@pytest.fixture
def libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    llama, vllm = ModuleType("llama_cpp"), ModuleType("vllm")
    vars(llama).update(Llama=_Llama, llama_get_logits_ith=_logits, __version__="0")
    made = lambda **arguments: SimpleNamespace(llm_engine=_Engine(), arguments=arguments)  # noqa: E731
    vars(vllm).update(LLM=made, SamplingParams=SimpleNamespace, __version__="0")
    monkeypatch.setitem(sys.modules, "llama_cpp", llama)
    monkeypatch.setitem(sys.modules, "vllm", vllm)


def _reply(ids: list[int], tokens: int) -> list[int]:
    made: list[int] = []
    for _ in range(tokens):
        made.append(sum(ids + made) % 11)
    return made


@pytest.mark.parametrize("kind", [LlamaPeer, VllmPeer])
def test_every_question_is_answered_behind_the_stored_tokens(libraries: None, kind: Any) -> None:
    peer: Peer = kind("model", "float32", 64, 2, {"settle": 1})
    for context in (list(range(1, 9)), list(range(20, 44))):
        peer.store(context)
        for question in ([3], [5, 1, 1], [4]):
            answer = peer.answer([*context, *question], len(context), 3)
            assert answer["token_ids"] == _reply([*context, *question], 3)
            assert answer["reused"] == len(context) and answer["ttft_ms"] > 0 and len(answer["later_ms"]) == 2
            assert peer.answer([*context, *question], len(context), 1)["later_ms"] == []


def test_llama_computes_the_question_only(libraries: None) -> None:
    peer = LlamaPeer("file", "float32", 64, 2, {"flash_attn": True})
    peer.store([1] * 10)
    peer.answer([1] * 10 + [2, 3], 10, 3)
    llama = peer._llama
    assert llama.passes == [10, 2, 1, 1]
    assert llama.arguments["n_threads"] == llama.arguments["n_threads_batch"] == 2
    assert llama.arguments["flash_attn"] and llama.arguments["model_path"] == "file"


def test_vllm_reuses_whole_blocks(libraries: None) -> None:
    peer = VllmPeer("folder", "bfloat16", 64, 2, {"block_size": 4})
    peer.store([1] * 10)
    assert peer.answer([1] * 10 + [2], 10, 1)["reused"] == 8
