"""Which modules make sense only behind others: how much easier the model reads them there.

A module's states change behind whatever stands before it, and so do all answers a little. What tells a dependence from
that is the control: the same module behind unrelated texts of the same length. If the text before it does not matter,
it is one more of them.

Measured with the default model on short texts: of 9 pairs in which the second makes sense only behind the first, 5 are
found (defined terms, keys, a table's headings, numbered questions, a story told on; not "the above", a unit, or whom a
pronoun means), and of 4 in which the second says the names and facts of the first again, all. Of 50 other pairs 5 are
taken for one: texts of a kind are easier behind each other, such as a timetable behind opening hours.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import torch

from promptcache.kv.block import KVBlock
from promptcache.layout.encodings.encoding import Segment
from promptcache.layout.encodings.key import SegmentKey
from promptcache.layout.plan import RequestPlan, Run
from promptcache.runtime.requests import Requests
from promptcache.runtime.settled import Planned, Settled
from promptcache.runtime.verify.divergence import negative_log_likelihood
from promptcache.runtime.verify.unrelated import unrelated
from promptcache.runtime.verify.verification import Leaning, ModuleReport
from promptcache.store.lease import Lease

_ATTENDED = 0.01
"""The share of the new text's attention that a module must get to be looked at."""

_READ = 256
"""Tokens of a module that are read: what it leans on shows at its start."""


def pairs(plan: RequestPlan, modules: Sequence[ModuleReport]) -> list[tuple[str, str]]:
    """(module, one before it) by path, for modules that saw too little and are attended to. Those that matter most come
    first: much attention on both, and on states that are far off."""
    order = list(dict.fromkeys(run.segment.owner for run in plan.runs if run.segment and run.segment.owner))
    attention = {each.path: each.attention for each in modules}
    found = [
        (each.attention * each.distance * attention.get(other, 0), each.path, other)
        for each in modules
        if each.path and not each.exact and each.attention >= _ATTENDED
        for other in reversed(order[: order.index(each.path)])
    ]
    return [(path, other) for _, path, other in sorted(found, key=lambda each: -each[0])]


class Reader:
    """Reads modules of one prompt behind each other. `full` are the states of its tokens in a full prefill."""

    def __init__(self, requests: Requests, plan: RequestPlan, full: KVBlock) -> None:
        self._requests, self._plan = requests, plan
        self._full: list[Run] = []
        self._states: dict[SegmentKey, KVBlock] = {}
        slot = 0
        for run in plan.runs:
            key = SegmentKey(f"full prefill from {run.start}")
            self._full.append(Run(run.start, run.ids, "reused", Segment(key, run.ids, run.start, "", -1, 0)))
            self._states[key] = full.part(slot, slot + run.length)
            slot += run.length

    def leaning(self, path: str, on: str) -> Leaning | None:
        """How much a module (its path) leans on one that stands before it. Both are taken with what the prompt has
        inside them; the module is read right behind the other, with all in view that stands before that. None for one
        token, of which there is nothing to read."""
        runs = self._plan.runs
        start, end = _stretch(runs, path, len(runs))
        read = [token for run in runs[start:end] for token in run.ids][:_READ]
        if len(read) < 2:
            return None
        first, last = _stretch(runs, on, start)
        ids = [token for run in runs[first:last] for token in run.ids]
        others = [self._surprise(first, last, each, read) for each in unrelated(self._requests.tokenizer, ids)]
        mean = sum(others) / len(others)
        # Each control beside the other ones, as the module beside all of them.
        spread = max(abs(mean - each) for each in others) * len(others) / (len(others) - 1)
        return Leaning(path, on, mean - self._surprise(first, last, ids, read), spread)

    def _surprise(self, first: int, last: int, ids: Sequence[int], read: Sequence[int]) -> float:
        """Nats a token of what is read behind `ids` in the place of the runs `[first, last)`, but for its first token,
        of which the end of what stands before it tells most. All runs before `first` are in view."""
        left = iter(ids)
        place = self._plan.runs[first:last]
        new = [Run(run.start, tuple(islice(left, run.length)), "fresh") for run in place]
        runs = (*self._full[:first], *new, Run(place[-1].end, tuple(read), "fresh"))
        plan = RequestPlan(None, runs, False, self._plan.layout, self._plan.encoding)
        with Lease() as lease:
            lease.add(self._states)
            settled = Settled(plan, lease, 0)
            state = self._requests.state(Planned(plan, None, self._requests.attention), settled)
            logits = state.prefill(keep=len(read))
        return float(negative_log_likelihood(logits[:-1], torch.tensor(read[1:])).mean())


def _stretch(runs: Sequence[Run], path: str, limit: int) -> tuple[int, int]:
    """The runs of a module and of what is inside it, from its first on and before number `limit`, where a prompt
    imports it first."""
    owners = [run.segment.owner if run.segment else None for run in runs[:limit]]
    first = last = owners.index(path)
    for number, owner in enumerate(owners[first:], first):
        if owner is not None and not (owner == path or owner.startswith(f"{path}/")):
            break
        last = number if owner is not None else last
    return first, last + 1
