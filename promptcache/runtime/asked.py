"""Continuations to score, each request in a pass of its own or many in one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from promptcache.layout.token_tree import TokenTree
from promptcache.runtime.batch.batch import Batch
from promptcache.runtime.reply.answers import check_size
from promptcache.runtime.reply.replies import MOST_TOKENS
from promptcache.runtime.requests import Requests
from promptcache.runtime.scoring import Score, score_continuations
from promptcache.runtime.settled import Planned

_MOST_LOGITS = 1 << 26
"""Numbers: 256 MB of logits."""


@dataclass(frozen=True)
class Asked:
    """Continuations to score behind a planned prompt, and their tree."""

    planned: Planned
    tree: TokenTree
    continuations: Sequence[Sequence[int]]


def score_one(requests: Requests, asked: Asked) -> list[Score]:
    """The scores of its continuations."""
    state = requests.assemble(asked.planned, room=len(asked.tree))
    return score_continuations(state.prefill_tree(asked.tree), asked.tree, asked.continuations)


def score_batches(requests: Requests, asked: Iterable[Asked], batch_size: int) -> Iterator[list[Score]]:
    """The scores of each, in their order; up to `batch_size` in one pass, as far as the path allows that. Raises
    RequestError for none."""
    check_size("batch_size", batch_size)
    if requests.attention != "segments":
        yield from (score_one(requests, each) for each in asked)
        return
    batch = Batch(requests.adapter)
    for together in _batches(asked, batch_size, requests.adapter.vocab_size):
        with ExitStack() as held:
            rows = {}
            for each in together:
                settled = requests.settle(each.planned)
                held.enter_context(settled.blocks)
                rows[batch.join(settled.plan, settled.blocks, each.tree)] = each
            logits = batch.step({})
            for row, each in rows.items():
                yield score_continuations(logits[row], each.tree, each.continuations)
                batch.leave(row)


def _batches(asked: Iterable[Asked], batch_size: int, vocab_size: int) -> Iterator[list[Asked]]:
    """In groups that a pass can take."""
    together: list[Asked] = []
    tokens = kept = 0
    for each in asked:
        plan = each.planned.plan
        more = plan.num_computed + len(each.tree), 1 + len(each.tree)
        tokens, kept = tokens + more[0], kept + more[1]
        if together and (len(together) == batch_size or tokens > MOST_TOKENS or kept * vocab_size > _MOST_LOGITS):
            yield together
            together, (tokens, kept) = [], more
        together.append(each)
    if together:
        yield together
