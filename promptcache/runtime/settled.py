"""A request that is ready to run, and one whose stored states are at hand."""

from __future__ import annotations

from dataclasses import dataclass, field

from promptcache.errors import RequestError
from promptcache.layout.layout import SchemaLayout
from promptcache.layout.plan import RequestPlan
from promptcache.layout.repaired import repaired
from promptcache.runtime.encoder import ModuleEncoder
from promptcache.runtime.repair.base import RepairPolicy
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
    passes = planned.layout.passes if planned.layout else ()
    probe = AttentionProbe(encoder.adapter, blocks, planned.attention)
    chosen = planned.repair.choose(planned.plan, passes, probe)
    plan = repaired(planned.plan, chosen, passes) if chosen else planned.plan
    return Settled(plan, blocks, encoded + probe.computed_tokens)
