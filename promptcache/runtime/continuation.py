"""A given continuation behind a prompt, seen through the model's predictions of it (teacher forcing)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from promptcache.errors import LayoutError, RequestError
from promptcache.layout.plan import RequestPlan, Run
from promptcache.runtime.requests import Requests
from promptcache.runtime.settled import Planned, Settled


def continuation_logits(requests: Requests, planned: Planned, token_ids: Sequence[int]) -> torch.Tensor:
    """Logits that predict each of `token_ids` behind the prompt: float32 [len(token_ids), vocab_size], in the prompt's
    own pass. Row 0 is that of the prompt's last token; the last of `token_ids` needs no pass of its own.

    Raises RequestError for no tokens or for ids that the model does not have, LayoutError where it has no room.
    """
    _check(requests, planned.plan, token_ids)
    # Before the continuation is there: it must not tell what to repair.
    return settled_logits(requests, planned, requests.settle(planned), token_ids)


def settled_logits(requests: Requests, planned: Planned, settled: Settled, token_ids: Sequence[int]) -> torch.Tensor:
    """As `continuation_logits`, for a request that is settled. Raises the same."""
    _check(requests, settled.plan, token_ids)
    if forced := tuple(token_ids[:-1]):
        run = Run(settled.plan.runs[-1].end, forced, "fresh")
        settled = replace(settled, plan=replace(settled.plan, runs=(*settled.plan.runs, run)))
    return requests.state(planned, settled).prefill(keep=len(token_ids))


def _check(requests: Requests, plan: RequestPlan, token_ids: Sequence[int]) -> None:
    vocab_size, limit = requests.adapter.vocab_size, requests.adapter.max_positions
    if not token_ids:
        raise RequestError("the continuation has no tokens", hint="give at least one token id")
    for token in token_ids:
        if not 0 <= token < vocab_size:
            raise RequestError(f"there is no token {token}", hint=f"the model's ids are 0 to {vocab_size - 1}")
    last = plan.runs[-1].end + len(token_ids) - 2
    if limit is not None and last >= limit:
        raise LayoutError(
            f"prompt and continuation reach position {last} and the model has {limit}",
            hint="shorten the prompt or the continuation",
        )
