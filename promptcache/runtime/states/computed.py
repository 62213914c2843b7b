"""What a finished request computed, as segments that later requests can reuse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from promptcache.kv.block import KVBlock
from promptcache.layout.encodings.encoding import Segment
from promptcache.layout.encodings.key import KeyContext, SegmentKey
from promptcache.layout.plan import RequestPlan, Run
from promptcache.runtime.states.state import run_states
from promptcache.store.base import Blocks

_NO_PASS = -1


@dataclass
class Known:
    """Segments that requests computed: side by side from each start in `chains`, with their states in `blocks`."""

    chains: dict[int, list[Segment]] = field(default_factory=dict)
    blocks: dict[SegmentKey, KVBlock] = field(default_factory=dict)


def known_after(
    context: KeyContext,
    whole: RequestPlan,
    plan: RequestPlan,
    block: KVBlock,
    generated: Sequence[int],
    kept: Blocks,
) -> Known:
    """What is known when a request has finished: the fresh runs of `whole`, the last one continued by the generated
    tokens whose states exist (not the last sampled one, which was never run).

    `block` are the states that it computed, in that order; `plan` is `whole` as it ran, with tokens reused from
    `kept`, the blocks known before.
    """
    known = Known()
    stored = [r.segment.key for r in plan.runs if r.kind == "reused" and r.segment and r.segment.key not in kept]
    starts = {run.start: run.end for run in whole.runs if run.kind == "fresh"}
    before: list[tuple[int, int]] = []
    chain: list[Segment] = []
    slot = end = 0

    def add(run: Run, states: KVBlock) -> None:
        saw = [(position - run.start, token) for position, token in before]
        key = context.key(run.ids, saw=saw, start=run.start, within=stored)
        chain.append(Segment(key, run.ids, run.start, "", _NO_PASS, 0))
        known.blocks[key] = states

    for run in plan.runs:
        if run.start in starts:
            chain, end = known.chains.setdefault(run.start, []), starts[run.start]
        if run.kind != "reused":
            states = block.part(slot, slot + run.length)
            slot += run.length
        if run.start < end:
            add(run, states if run.kind != "reused" else run_states(run, kept))
        before += zip(range(run.start, run.end), run.ids, strict=True)
    if rest := block.seq_len - slot:
        last = plan.runs[-1].end
        chain = chain if last == end else known.chains.setdefault(last, [])
        add(Run(last, tuple(generated[:rest]), "fresh"), block.part(slot, slot + rest))
    return known
