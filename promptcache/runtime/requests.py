"""What serves requests: planning against loaded schemas, running, and nothing of how they were asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from promptcache.errors import RequestError
from promptcache.layout.encodings.key import KeyContext
from promptcache.layout.layout import SchemaLayout
from promptcache.layout.plain import plan_plain
from promptcache.layout.plan import RequestPlan
from promptcache.layout.policies.policy import policy
from promptcache.layout.text.tokenizer import Tokenizer
from promptcache.models.adapter import ModelAdapter
from promptcache.pml import Prompt, bind
from promptcache.runtime.encoder import ModuleEncoder
from promptcache.runtime.repair.base import RepairPolicy
from promptcache.runtime.repair.none import NO_REPAIR
from promptcache.runtime.reply.answers import answer_all, numbered, samplings
from promptcache.runtime.reply.completion import Completion
from promptcache.runtime.reply.generation import Generation
from promptcache.runtime.reply.options import Sampling, SamplingOptions
from promptcache.runtime.reply.reply import OnFinish, Reply
from promptcache.runtime.settled import Planned, Settled, settle
from promptcache.runtime.states.state import AttentionState, attention_state
from promptcache.runtime.timing import Stopwatch

Item = TypeVar("Item")


@dataclass(frozen=True)
class Requests:
    """The parts that every request needs. `layout` names the policy of prompts without a schema."""

    adapter: ModelAdapter
    tokenizer: Tokenizer
    encoder: ModuleEncoder
    context: KeyContext
    attention: str
    layout: str

    def plan(self, prompt: Prompt, layout: SchemaLayout | None) -> RequestPlan:
        """The plan of a prompt. Raises PMLError, LayoutError, TurnError; RequestError for no tokens."""
        limit = self.adapter.max_positions
        if layout is None:
            plan = plan_plain(bind(prompt, None), self.tokenizer, layout=self.layout, max_positions=limit)
        else:
            bound = bind(prompt, layout.schema)
            plan = policy(layout.policy).plan(layout, bound, self.tokenizer, max_positions=limit)
        if not plan.runs:
            raise RequestError("the prompt has no tokens", hint="import a module or add text")
        return plan

    def planned(
        self,
        plan: RequestPlan,
        layout: SchemaLayout | None,
        *,
        reuse: bool = True,
        repair: RepairPolicy = NO_REPAIR,
    ) -> Planned:
        """The plan as it will run; with `reuse` false all its tokens are computed."""
        if not reuse:
            return Planned(plan.without_reuse(), None, self.attention)
        return Planned(plan, layout, self.attention, repair=repair)

    def shown(self, planned: Planned) -> RequestPlan:
        """The plan with the repaired tokens that can be told without running the model."""
        return planned.repaired(None)

    def settle(self, planned: Planned) -> Settled:
        """The request with its stored states and the plan as it will run."""
        return settle(self.encoder, planned)

    def state(self, planned: Planned, settled: Settled, room: int = 0) -> AttentionState:
        """The attention state of a settled request."""
        return attention_state(planned.attention, self.adapter, settled.plan, settled.blocks, room)

    def assemble(self, planned: Planned, room: int = 0) -> AttentionState:
        """The request's attention state."""
        return self.state(planned, self.settle(planned), room)

    def generation(
        self,
        planned: Planned,
        sampling: Sampling,
        watch: Stopwatch,
        on_finish: OnFinish | None = None,
    ) -> Generation:
        """The reply to a planned request."""
        return Generation(self.reply(planned, sampling, watch, on_finish))

    def reply(self, planned: Planned, sampling: Sampling, watch: Stopwatch, on_finish: OnFinish | None = None) -> Reply:
        """What becomes of a planned request's tokens."""
        return Reply(self.encoder, self.tokenizer, planned, sampling, watch, on_finish)

    def answers(
        self,
        items: Sequence[Item],
        plan: Callable[[Item], Planned],
        options: SamplingOptions,
        each: Sequence[SamplingOptions] | None,
        max_batch: int,
    ) -> list[Completion]:
        """The replies to what is planned for each item, see `answer_all`; `each` has more options for each."""
        watches = [Stopwatch(self.adapter.devices.wait) for _ in items]
        sampled = samplings(options, each, len(items))
        planned = list(numbered(items, plan))
        made = [self.reply(*every) for every in zip(planned, sampled, watches, strict=True)]
        return answer_all(self.adapter, made, max_batch)
