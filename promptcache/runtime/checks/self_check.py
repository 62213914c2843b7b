"""A proof at load: reuse on this very model against one pass of it, in one layout, on one attention path."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from promptcache.kv.block import KVBlock
from promptcache.layout.encodings.encoding import Segment
from promptcache.layout.encodings.key import SegmentKey
from promptcache.layout.plan import RequestPlan, Run
from promptcache.models.adapter import ModelAdapter
from promptcache.runtime.states.segmented import SegmentedState
from promptcache.runtime.states.state import AttentionState, attention_state

_BOUND = 1e-3
"""Of float32 errors, relative to the spread of the logits and to the largest key or value of a layer."""

_HALF_PRECISION_BOUND, _NOISES, _HOPELESS = 16.0, 4.0, 0.5
"""Of others: so many units in the last place, or so many times what one such unit in the model's input changes, but
never half of the size."""

_STEPS = 2

_found: dict[tuple[object, ...], str | None] = {}


def fault_of(adapter: ModelAdapter, attention: str, layout: str) -> str | None:
    """What is wrong with reuse on that path in that layout; None where nothing is. Remembered for a model with this
    fingerprint as long as the process lives.

    A small prompt, of stored runs with computed ones between and behind them and some decode steps, must get the states
    and logits that one pass gives under a mask in which every token sees what it saw when it was computed.
    """
    known = (adapter.fingerprint, type(adapter.model), adapter.dtype, adapter.devices, attention, layout)
    if known not in _found:
        _found[known] = _look(adapter, attention, layout)
    return _found[known]


@dataclass(frozen=True)
class _Pass:
    """Logits [tokens, vocab_size] of the computed tokens, states of all."""

    logits: torch.Tensor
    states: KVBlock


def _look(adapter: ModelAdapter, attention: str, layout: str) -> str | None:
    plan = _plan(adapter, layout)
    expected = _one_pass(adapter, plan)
    bounds = _bounds(adapter, plan, expected)
    faults = (_fault(plan, found, expected, bounds) for found in _by_reuse(adapter, attention, plan))
    return next((fault for fault in faults if fault), None)


def _fault(plan: RequestPlan, found: _Pass, expected: _Pass, bounds: Sequence[float]) -> str | None:
    kinds = [run.kind for run in plan.runs for _ in run.ids]
    stored = torch.tensor([kind == "reused" for kind in kinds])
    for layer in range(expected.states.num_layers):
        for name, ours, right in (
            ("keys", found.states.keys[layer], expected.states.keys[layer]),
            ("values", found.states.values[layer], expected.states.values[layer]),
        ):
            for kind, tokens in (("stored", stored), ("computed", ~stored)):
                off = _state_error(ours[:, tokens], right[:, tokens])
                if not off <= bounds[layer]:
                    return f"from layer {layer} on the {name} of {kind} tokens are off by {off:.1e} of their size"
    off = _logit_error(found.logits, expected.logits)
    return None if off <= bounds[-1] else f"the attention of the last layer is off: logits by {off:.1e} of their spread"


def _plan(adapter: ModelAdapter, layout: str) -> RequestPlan:
    """Stored and computed runs in turn, the last `_STEPS` tokens for decoding. In the reserved layout there are gaps,
    one of them such that the narrowest window ends within a stored run; in the compact one all runs are moved but the
    first. What a model that counts slots makes of a moved run no single pass can tell: there, one is stored."""
    kinds = [("reused", 5), ("fresh", 3), ("reused", 7), ("reused", 4), ("fresh", 3 + _STEPS)]
    if adapter.counts_slots:
        kinds = [("reused", 8), ("fresh", 3 + _STEPS)]
    width = min((window for window in adapter.windows if window is not None), default=0)
    gaps = [0, 2, 1, max(3, width - 9), 2] if layout == "reserved" else [0] * len(kinds)
    tokens = sum(length for _, length in kinds)
    room = (adapter.max_positions or 1 << 20) - tokens
    if sum(gaps) > room:
        gaps = [0] * len(kinds)
    runs: list[Run] = []
    end = count = 0
    for number, ((kind, length), gap) in enumerate(zip(kinds, gaps, strict=False)):
        start = end + gap
        ids = tuple((7919 * (count + i) + 13) % adapter.vocab_size for i in range(length))
        encoded_at = start if layout == "reserved" else 0
        segment = Segment(SegmentKey(f"{number}"), ids, encoded_at, "", number, 0) if kind == "reused" else None
        runs.append(Run(start, ids, "reused" if segment else "fresh", segment))
        end, count = start + length, count + length
    return RequestPlan(None, tuple(runs), False, layout, "isolated")


def _one_pass(adapter: ModelAdapter, plan: RequestPlan, *, noise: float = 0.0) -> _Pass:
    """The reference: a stored token sees its own run, a computed one all that stands before it. With `noise` its input
    embeddings are off by this share."""
    groups = torch.tensor([n if run.segment else -1 for n, run in enumerate(plan.runs) for _ in run.ids])
    order = torch.arange(plan.num_tokens)
    sees = (order[:, None] >= order) & ((groups[:, None] == groups) | (groups[:, None] < 0))
    among = torch.zeros(sees.shape).masked_fill(~sees, torch.finfo(torch.float32).min)
    positions = plan.position_ids
    mask = None if adapter.counts_slots else adapter.position_mask(positions, positions, among)
    cache = adapter.new_cache(plan.num_tokens)
    logits = adapter.forward(plan.token_ids, positions, cache, mask, keep=0, noise=noise)
    return _Pass(logits[groups.to(logits.device) < 0], cache.view(0, plan.num_tokens))


def _by_reuse(adapter: ModelAdapter, attention: str, plan: RequestPlan) -> Iterator[_Pass]:
    blocks: dict[SegmentKey, KVBlock] = {}
    for run in plan.runs:
        if run.segment:
            cache, start = adapter.new_cache(run.length), run.segment.start
            adapter.forward(run.ids, range(start, start + run.length), cache, None)
            blocks[run.segment.key] = cache.view(0, run.length).copy()
    last = plan.runs[-1]
    shorter = Run(last.start, last.ids[:-_STEPS], "fresh")
    asked = RequestPlan(None, (*plan.runs[:-1], shorter), False, plan.layout, plan.encoding)
    yield _run(attention_state(attention, adapter, asked, blocks, _STEPS), asked, last.ids[-_STEPS:])
    if attention == "segments":
        # Short segments are gathered; longer ones are attended where they lie.
        yield _run(SegmentedState(adapter, asked, blocks, _STEPS, gathered_tokens=0), asked, last.ids[-_STEPS:])


def _run(state: AttentionState, asked: RequestPlan, steps: Sequence[int]) -> _Pass:
    logits = [state.prefill(keep=0), *(state.step(token)[None] for token in steps)]
    computed = state.computed()
    states = [state.states_of(run) for run in asked.runs]
    states.append(computed.part(computed.seq_len - len(steps), computed.seq_len))
    return _Pass(torch.cat(logits), KVBlock.joined(states))


def _bounds(adapter: ModelAdapter, plan: RequestPlan, expected: _Pass) -> list[float]:
    """How far reuse may be off in the states of each layer, and in the logits."""
    if adapter.dtype == torch.float32:
        return [_BOUND] * (adapter.num_layers + 1)
    unit = torch.finfo(adapter.dtype).eps
    noisy = _one_pass(adapter, plan, noise=unit)
    noises = [
        max(_state_error(ours, theirs) for ours, theirs in ((keys, right_keys), (values, right_values)))
        for keys, values, right_keys, right_values in zip(
            noisy.states.keys, noisy.states.values, expected.states.keys, expected.states.values, strict=True
        )
    ]
    noises.append(_logit_error(noisy.logits, expected.logits))
    return [min(_HOPELESS, max(_HALF_PRECISION_BOUND * unit, _NOISES * noise)) for noise in noises]


def _state_error(found: torch.Tensor, expected: torch.Tensor) -> float:
    size = expected.float().abs().max().clamp_min(1e-6)
    return float((found.float() - expected.float()).abs().max() / size)


def _logit_error(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float((found - expected).abs().max() / expected.std().clamp_min(1e-6))
