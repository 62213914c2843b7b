"""Chats without a schema: what an earlier call computed of a conversation is reused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from promptcache.layout.known import reuse_known
from promptcache.layout.plan import RequestPlan
from promptcache.pml import Prompt
from promptcache.runtime.conversation.chat_memory import ChatMemory
from promptcache.runtime.reply.completion import Completion
from promptcache.runtime.reply.generation import Generation
from promptcache.runtime.reply.options import Sampling
from promptcache.runtime.reply.reply import ComputedStates
from promptcache.runtime.requests import Requests
from promptcache.runtime.settled import Planned
from promptcache.runtime.states.computed import known_after
from promptcache.runtime.timing import Stopwatch


class Chats:
    """Replies to conversations, with a memory of those seen before."""

    def __init__(self, requests: Requests, budget_bytes: int) -> None:
        self._requests = requests
        self.memory = ChatMemory(budget_bytes)

    def stream(self, messages: Sequence[Mapping[str, str]], sampling: Sampling, watch: Stopwatch) -> Generation:
        """The reply. Its states are kept when it is finished."""
        whole = self._requests.plan(Prompt(messages=messages), None)
        known = self.memory.longest(whole.token_ids)
        planned = Planned(reuse_known(whole, known.chains), None, self._requests.attention, known.blocks)

        def finish(plan: RequestPlan, state: ComputedStates, completion: Completion) -> None:
            context, generated = self._requests.context, completion.token_ids
            self.memory.add(known_after(context, whole, plan, state.computed(), generated, known.blocks))

        return self._requests.generation(planned, sampling, watch, finish)
