"""A request that is ready to run, and one whose stored states are at hand."""

from __future__ import annotations

from dataclasses import dataclass, field

from promptcache.errors import RequestError
from promptcache.layout.layout import SchemaLayout
from promptcache.layout.plan import RequestPlan
from promptcache.layout.repaired import repaired
from promptcache.runtime.encoder import ModuleEncoder
from promptcache.runtime.repair.base import Probe, RepairPolicy
from promptcache.runtime.repair.none import NO_REPAIR
from promptcache.runtime.repair.probe import AttentionProbe
from promptcache.store.base import Blocks
from promptcache.store.lease import Lease


@dataclass(frozen=True)
class Planned:
    """A request that is ready to run. `layout` is that of its schema, None for a plain prompt; `attention` is the
    kind of its `AttentionState`; `kept` holds blocks of earlier requests that its plan reuses; `repair` has yet to
    choose."""

    plan: RequestPlan
    layout: SchemaLayout | None
    attention: str
    kept: Blocks = field(default_factory=dict)
    repair: RepairPolicy = NO_REPAIR

    def repaired(self, probe: Probe | None) -> RequestPlan:
        """The plan with what its policy chooses computed again; for one that is exact no policy is asked."""
        if self.plan.exact:
            return self.plan
        passes = self.layout.passes if self.layout else ()
        chosen = self.repair.choose(self.plan, passes, probe)
        return repaired(self.plan, chosen, passes) if chosen else self.plan


@dataclass(frozen=True)
class Settled:
    """A request whose stored states are at hand and whose repaired tokens are chosen; `waited_tokens` are those of the
    passes that this took, to encode and to choose. The lease is given back at the latest when nobody holds it, or an
    attention state on it, any more."""

    plan: RequestPlan
    blocks: Lease
    waited_tokens: int


def settle(encoder: ModuleEncoder, planned: Planned) -> Settled:
    """Gets the stored states, encodes what the store lacks, and lets the repair policy choose."""
    if not planned.plan.runs:
        raise RequestError("the prompt has no tokens", hint="import a module or add text")
    segments = [run.segment for run in planned.plan.runs if run.kind == "reused" and run.segment is not None]
    stored = [segment for segment in segments if segment.key not in planned.kept]
    blocks, encoded = Lease(), 0
    if planned.layout is not None:
        blocks, encoded = encoder.blocks(planned.layout, stored)
    blocks.add(planned.kept)
    probe = AttentionProbe(encoder.adapter, blocks, planned.attention)
    plan = planned.repaired(probe)
    return Settled(plan, blocks, encoded + probe.computed_tokens)
