"""A pass over a request's computed tokens that tells where their attention falls."""

from __future__ import annotations

from collections.abc import Mapping

from promptcache.layout.plan import RequestPlan
from promptcache.models.adapter import ModelAdapter
from promptcache.runtime.states.state import attention_state
from promptcache.store.base import Blocks


class AttentionProbe:
    """See `Probe`. `attention` is the kind of the request's `AttentionState`, `computed_tokens` counts what went
    through the model."""

    def __init__(self, adapter: ModelAdapter, blocks: Blocks, attention: str) -> None:
        self._adapter, self._blocks, self._attention = adapter, blocks, attention
        self.computed_tokens = 0

    def attention(self, plan: RequestPlan) -> Mapping[int, float]:
        """See `Probe`."""
        state = attention_state(self._attention, self._adapter, plan, self._blocks, 0)
        asking = [run.kind == "fresh" for run in plan.computed for _ in run.ids]
        rows = [row for row, fresh in enumerate(asking) if fresh or not any(asking)]
        self.computed_tokens += len(asking)
        shares = state.attention_shares(rows).tolist()
        positions = [p for run in plan.runs if run.kind == "reused" for p in range(run.start, run.end)]
        return dict(zip(positions, shares, strict=True))
