"""What a request gives back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from promptcache.runtime.timing import Timings

FinishReason = Literal["stop", "length"]


@dataclass(frozen=True)
class Usage:
    """Token counts. `reused + repaired + fresh = prompt`; `computed_tokens` are those of every forward pass that the
    request waited for before its first token, to encode, to choose what to repair, to answer; decode steps are not in
    it."""

    prompt_tokens: int
    reused_tokens: int
    fresh_tokens: int
    repaired_tokens: int
    computed_tokens: int
    completion_tokens: int


@dataclass(frozen=True)
class Completion:
    """A finished reply. `token_ids` are the sampled tokens, an end-of-sequence token included; `text` ends before the
    stop string, if one was found. `exact`: the prompt's states were those of a full prefill.

    `repair` is the policy that chose tokens to compute again, `encoding` what the stored states had seen, `layout` who
    gave the positions."""

    text: str
    token_ids: tuple[int, ...]
    finish_reason: FinishReason
    usage: Usage
    timings: Timings
    exact: bool
    repair: str
    encoding: str
    layout: str
