"""What would bring a prompt closer to its full prefill, tried out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from promptcache.layout.layout import SchemaLayout
from promptcache.layout.plan import RequestPlan
from promptcache.layout.policies.policy import policy
from promptcache.pml import Prompt, Scaffold
from promptcache.runtime.continuation import settled_logits
from promptcache.runtime.repair.base import repair_policy
from promptcache.runtime.requests import Requests
from promptcache.runtime.settled import Planned
from promptcache.runtime.verify.divergence import kl_divergence
from promptcache.runtime.verify.verification import SEAMS, Leaning, Remedy

_REPAIRS = (SEAMS, "query:0.15")

_SCAFFOLDS = 4
"""Scaffolds that are tried, of the modules that lean most. Each takes a pass over its modules, and one over what the
request computes."""


@dataclass(frozen=True)
class Remedies:
    """Tries remedies on a request. What they leave is measured against `full_logits` along the tokens `targets`."""

    requests: Requests
    prompt: Prompt
    plan: RequestPlan
    layout: SchemaLayout
    full_logits: torch.Tensor
    targets: Sequence[int]

    def all(self, leanings: Sequence[Leaning]) -> Iterator[Remedy]:
        """Repairs, then scaffolds of two modules each."""
        for name in _REPAIRS:
            planned = self.requests.planned(self.plan, self.layout, repair=repair_policy(name))
            yield self._tried(planned)
        for pair in sorted(leanings, key=lambda each: each.control - each.gain)[:_SCAFFOLDS]:
            if remedy := self._scaffold(pair.on, pair.path):
                yield remedy

    def _tried(self, planned: Planned) -> Remedy:
        settled = self.requests.settle(planned)
        logits = settled_logits(self.requests, planned, settled, self.targets)
        mean_kl = float(kl_divergence(self.full_logits, logits).mean())
        return Remedy(planned.repair.name, mean_kl, settled.plan.count("repaired"))

    def _scaffold(self, before: str, behind: str) -> Remedy | None:
        """The request with a scaffold of two modules, whose states are made for it alone, and its seams repaired; None
        where the scaffold does not take part.

        Any text before a module does it good, whatever it says: with the seams repaired on both sides of the
        comparison less of that is in it.
        """
        requests = self.requests
        schema = replace(self.layout.schema, scaffolds=(*self.layout.schema.scaffolds, Scaffold((before, behind))))
        laid_out = policy(self.layout.policy).lay_out(
            schema,
            requests.tokenizer,
            encoding=self.layout.encoding,
            context=requests.context,
            max_positions=requests.adapter.max_positions,
        )
        plan = requests.plan(self.prompt, laid_out)
        joint = {segment.key: segment for segment in laid_out.scaffolds[-1].segments.values()}
        if not any(run.kind == "reused" and run.segment and run.segment.key in joint for run in plan.runs):
            return None
        planned = requests.planned(plan, laid_out, repair=repair_policy(SEAMS))
        made = laid_out.passes[next(iter(joint.values())).encoding_pass]
        cache = requests.adapter.new_cache(len(made.ids))
        requests.adapter.forward(made.ids, made.positions, cache, None)
        kept = {key: cache.view(each.offset, each.offset + each.length) for key, each in joint.items()}
        return replace(self._tried(replace(planned, kept=kept)), scaffold=(before, behind))
