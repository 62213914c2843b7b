"""A prompt with reuse held against its full prefill, and what would bring it closer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

import torch

from promptcache.errors import RequestError
from promptcache.kv.block import KVBlock
from promptcache.layout.layout import SchemaLayout
from promptcache.layout.plan import Run, exact_runs
from promptcache.pml import Prompt
from promptcache.runtime.continuation import settled_logits
from promptcache.runtime.repair.base import RepairPolicy
from promptcache.runtime.repair.probe import AttentionProbe
from promptcache.runtime.requests import Requests
from promptcache.runtime.settled import Planned, Settled
from promptcache.runtime.states.state import AttentionState, run_states
from promptcache.runtime.verify.divergence import kl_divergence, negative_log_likelihood
from promptcache.runtime.verify.leaning import Reader, pairs
from promptcache.runtime.verify.remedies import Remedies
from promptcache.runtime.verify.verification import CLOSE, ModuleReport, Remedy, Verification

_PAIRS = 8
"""Pairs of modules that are read behind each other, the most promising ones: each takes six passes over both."""


def verify(
    requests: Requests,
    prompt: Prompt,
    layout: SchemaLayout | None,
    repair: RepairPolicy,
    *,
    answer: str | None,
    max_new_tokens: int,
) -> Verification:
    """See `PromptCache.verify`."""
    return _Verifier(requests, prompt, layout).verify(repair, answer, max_new_tokens)


class _Verifier:
    """`full` is the prompt with nothing reused."""

    def __init__(self, requests: Requests, prompt: Prompt, layout: SchemaLayout | None) -> None:
        self.requests, self.prompt, self.layout = requests, prompt, layout
        self.plan = requests.plan(prompt, layout)
        self.full = requests.planned(self.plan, None, reuse=False)
        self.settled_full = requests.settle(self.full)

    def verify(self, repair: RepairPolicy, answer: str | None, max_new_tokens: int) -> Verification:
        planned = self.requests.planned(self.plan, self.layout, repair=repair)
        settled = self.requests.settle(planned)
        room = self._room(max_new_tokens)
        full_state = self.requests.state(self.full, self.settled_full, room)
        full_greedy = self._greedy(full_state, room)
        greedy = self._greedy(self.requests.state(planned, settled, room), room)
        targets = full_greedy if answer is None else self._answer_ids(answer)
        full_logits = settled_logits(self.requests, self.full, self.settled_full, targets)
        logits = settled_logits(self.requests, planned, settled, targets)
        divergence = kl_divergence(full_logits, logits)
        mean_kl = float(divergence.mean())
        states = full_state.computed().part(0, self.plan.num_tokens)
        modules = self._modules(planned, settled, states)
        candidates, reader = pairs(self.plan, modules), Reader(self.requests, self.plan, states)
        leanings = tuple(found for pair in candidates[:_PAIRS] if (found := reader.leaning(*pair)))
        remedies: tuple[Remedy, ...] = ()
        if mean_kl > CLOSE and not settled.plan.exact:
            assert self.layout is not None, "without a schema all is exact"
            tried = Remedies(self.requests, self.prompt, self.plan, self.layout, full_logits, targets)
            remedies = tuple(tried.all(leanings))
        same = next((n for n, (a, b) in enumerate(zip(full_greedy, greedy, strict=False)) if a != b), None)
        nll, full_nll = (
            float(negative_log_likelihood(each, torch.tensor(targets)).mean()) for each in (logits, full_logits)
        )
        return Verification(
            exact=settled.plan.exact,
            repair=repair.name,
            encoding=settled.plan.encoding,
            layout=settled.plan.layout,
            prompt_tokens=settled.plan.num_tokens,
            repaired_tokens=settled.plan.count("repaired"),
            first_kl=float(divergence[0]),
            top1=full_greedy[0] == greedy[0],
            mean_kl=mean_kl,
            nll=nll,
            full_nll=full_nll,
            answer=self.requests.tokenizer.decode(targets),
            agreement=1.0 if same is None else same / len(full_greedy),
            greedy_tokens=len(full_greedy),
            modules=modules,
            leanings=leanings,
            pairs_left_out=max(len(candidates) - _PAIRS, 0),
            remedies=remedies,
        )

    def _room(self, max_new_tokens: int) -> int:
        if max_new_tokens < 1:
            raise RequestError(f"max_new_tokens={max_new_tokens} is out of range", hint="it must be 1 or more")
        limit = self.requests.adapter.max_positions
        return max_new_tokens if limit is None else min(max_new_tokens, limit - self.plan.runs[-1].end + 1)

    def _greedy(self, state: AttentionState, tokens: int) -> list[int]:
        ends = self.requests.tokenizer.eos_ids | self.requests.adapter.eos_ids
        found = [int(state.prefill()[-1].argmax())]
        while len(found) < tokens and found[-1] not in ends:
            found.append(int(state.step(found[-1]).argmax()))
        return found

    def _answer_ids(self, answer: str) -> list[int]:
        ids = self.requests.tokenizer.encode(answer, behind=None, start=False)
        if not ids:
            raise RequestError("the answer has no tokens", hint="give some text, or leave it out")
        return list(ids)

    def _modules(self, planned: Planned, settled: Settled, full: KVBlock) -> tuple[ModuleReport, ...]:
        """One report for each module with reused tokens, in the order of the prompt."""
        plan, passes = settled.plan, planned.layout.passes if planned.layout else ()
        probe = AttentionProbe(self.requests.adapter, settled.blocks, planned.attention)
        attention = probe.attention(plan) if plan.count("reused") else {}
        slots, slot = {}, 0
        for run in plan.runs:
            slots[run.start] = slot
            slot += run.length
        reused = [
            (run, exact)
            for run, exact in zip(plan.runs, exact_runs(plan.runs, passes), strict=True)
            if run.kind == "reused"
        ]
        found: dict[str, list[tuple[Run, bool]]] = {}
        for owner, runs in groupby(reused, key=lambda each: each[0].segment.owner if each[0].segment else ""):
            found.setdefault(owner, []).extend(runs)
        return tuple(self._module(owner, runs, attention, slots, settled, full) for owner, runs in found.items())

    def _module(
        self,
        owner: str,
        runs: Sequence[tuple[Run, bool]],
        attention: Mapping[int, float],
        slots: Mapping[int, int],
        settled: Settled,
        full: KVBlock,
    ) -> ModuleReport:
        tokens = sum(run.length for run, _ in runs)
        distance = 0.0
        for run, _ in runs:
            block = self.requests.adapter.devices.near(run_states(run, settled.blocks))
            right = full.part(slots[run.start], slots[run.start] + run.length)
            distance += _distances(block, right).sum().item()
        share = sum(attention[position] for run, _ in runs for position in range(run.start, run.end))
        return ModuleReport(owner, tokens, share, distance / tokens, all(exact for _, exact in runs))


def _distances(block: KVBlock, right: KVBlock) -> torch.Tensor:
    """|value - right value| / |right value| of each token, a mean over layers: float32 [seq_len]. Values do not depend
    on where a token stands but through what it saw, so moved states need no turning."""
    layers = []
    for value, other in zip(block.values, right.values, strict=True):
        off, size = ((t.float().transpose(0, 1).flatten(1)).norm(dim=-1) for t in (value - other, other))
        layers.append((off / size.clamp_min(torch.finfo(torch.float32).tiny)).cpu())
    return torch.stack(layers).mean(0)
