"""A conversation that goes on behind a prompt, with all states kept."""

from __future__ import annotations

from typing import Unpack

from promptcache.layout.known import reuse_known
from promptcache.layout.layout import SchemaLayout
from promptcache.layout.plan import RequestPlan
from promptcache.pml import Prompt
from promptcache.runtime.repair.base import RepairPolicy
from promptcache.runtime.repair.none import NO_REPAIR
from promptcache.runtime.reply.completion import Completion
from promptcache.runtime.reply.generation import Generation
from promptcache.runtime.reply.options import Sampling, SamplingOptions
from promptcache.runtime.reply.reply import ComputedStates
from promptcache.runtime.requests import Requests
from promptcache.runtime.settled import Planned
from promptcache.runtime.states.computed import Known, known_after
from promptcache.runtime.timing import Stopwatch


class Session:
    """Each turn computes only its new tokens, those of the user's message and of the markers around it, and what the
    repair policy chooses of the modules. The reply's tokens are reused as far as the template renders them to the same
    ids. For one caller at a time."""

    def __init__(
        self, requests: Requests, prompt: Prompt, layout: SchemaLayout | None, repair: RepairPolicy = NO_REPAIR
    ) -> None:
        self._requests = requests
        self._prompt = prompt
        self._layout = layout
        self._repair = repair
        self._known = Known()

    @property
    def prompt(self) -> Prompt:
        """The conversation so far, finished replies included."""
        return self._prompt

    def send(self, text: str | None = None, *, reuse: bool = True, **options: Unpack[SamplingOptions]) -> Completion:
        """The reply to the user's next message; without one, to the prompt as it stands."""
        return self.stream(text, reuse=reuse, **options).finish()

    def stream(self, text: str | None = None, *, reuse: bool = True, **options: Unpack[SamplingOptions]) -> Generation:
        """As `send`, piece by piece. A reply that is abandoned leaves the session as it was."""
        watch = Stopwatch(self._requests.adapter.devices.wait)
        sampling = Sampling.of(options)
        prompt = self._prompt if text is None else self._prompt.with_turn("user", text)
        whole = self._requests.plan(prompt, self._layout)
        plan = reuse_known(whole, self._known.chains) if reuse else whole.without_reuse()
        kept = self._known.blocks
        repair = self._repair if reuse else NO_REPAIR
        planned = Planned(plan, self._layout if reuse else None, self._requests.attention, kept, repair)

        def finish(plan: RequestPlan, state: ComputedStates, completion: Completion) -> None:
            self._prompt = prompt.with_turn("assistant", completion.text)
            if reuse:
                self._known = known_after(
                    self._requests.context, whole, plan, state.computed(), completion.token_ids, kept
                )

        return self._requests.generation(planned, sampling, watch, finish)
