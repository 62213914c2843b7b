"""What becomes of a request's tokens: sampling, text, and where a reply ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch

from promptcache.kv.block import KVBlock
from promptcache.layout.plan import RequestPlan
from promptcache.layout.text.tokenizer import Tokenizer
from promptcache.models.adapter import ModelAdapter
from promptcache.runtime.encoder import ModuleEncoder
from promptcache.runtime.reply.completion import Completion, FinishReason, Usage
from promptcache.runtime.reply.options import Sampling
from promptcache.runtime.reply.text_stream import TextStream
from promptcache.runtime.settled import Planned, Settled, settle
from promptcache.runtime.timing import Stopwatch, Timings


class ComputedStates(Protocol):
    """What a finished request leaves."""

    def computed(self) -> KVBlock:
        """See `AttentionState`."""


OnFinish = Callable[[RequestPlan, ComputedStates, Completion], None]
"""Called with the plan as it ran, what holds all that was computed, and the reply."""


class Reply:
    """A reply as it grows, wherever its logits come from: `settle`, `assembled`, then `take` for each token until one
    ends it, and `finish`. Whoever drives it holds the blocks until then."""

    def __init__(
        self,
        encoder: ModuleEncoder,
        tokenizer: Tokenizer,
        planned: Planned,
        sampling: Sampling,
        watch: Stopwatch,
        on_finish: OnFinish | None = None,
    ) -> None:
        """`watch` runs since the call; planning has just ended. `on_finish` may take what the request computed."""
        self._encoder = encoder
        self._tokenizer = tokenizer
        self._planned = planned
        self._sampler = sampling.sampler()
        self._watch = watch
        self._plan_ms = watch.lap()
        self._assemble_ms = self._prefill_ms = self._ttft_ms = 0.0
        self._stream = TextStream(tokenizer.decode, sampling.stop)
        self._on_finish = on_finish
        self._context: list[int] = []
        self._token_ids: list[int] = []
        self._text: list[str] = []
        self._reason: FinishReason = "length"
        limit, end = encoder.adapter.max_positions, planned.plan.end
        self.room = sampling.max_new_tokens if limit is None else min(sampling.max_new_tokens, limit - end + 1)
        """The most tokens that it can have."""
        self.piece = ""
        """The text that the last token set free."""
        self.completion: Completion | None = None
        self.fault: Exception | None = None
        """What ended it instead, in a batch."""

    @property
    def adapter(self) -> ModelAdapter:
        """The model that runs it."""
        return self._encoder.adapter

    @property
    def attention(self) -> str:
        """The kind of its `AttentionState`."""
        return self._planned.attention

    @property
    def computed_tokens(self) -> int:
        """Tokens of its first pass, as far as they are planned."""
        return self._planned.plan.num_computed

    @property
    def token(self) -> int:
        """The last token."""
        return self._token_ids[-1]

    def settle(self) -> Settled:
        """See `settle`."""
        settled = settle(self._encoder, self._planned)
        # Not the blocks: they are to go when whoever drives this has done with them.
        self._plan, self._waited_tokens = settled.plan, settled.waited_tokens
        self._context = list(settled.plan.token_ids)
        return settled

    def assembled(self) -> None:
        """All is ready for the first pass."""
        self._assemble_ms = self._watch.lap()

    def take(self, logits: torch.Tensor) -> bool:
        """Draws the next token from logits [vocab_size]. Whether the reply ends with it."""
        token = self._sampler.draw(logits, self._context)
        if not self._token_ids:
            self._prefill_ms, self._ttft_ms = self._watch.lap(), self._watch.total()
        self._context.append(token)
        self._token_ids.append(token)
        at_eos = token in self._tokenizer.eos_ids or token in self._encoder.adapter.eos_ids
        self.piece = "" if at_eos else self._stream.push(token)
        ended = at_eos or self._stream.stopped or len(self._token_ids) >= self.room
        if ended:
            self.piece += self._stream.flush()
            self._reason = "stop" if at_eos or self._stream.stopped else "length"
        self._text.append(self.piece)
        return ended

    def finish(self, state: ComputedStates) -> Completion:
        """After the last token."""
        plan, decode_ms = self._plan, self._watch.lap()
        self.completion = Completion(
            "".join(self._text),
            tuple(self._token_ids),
            self._reason,
            self._usage(),
            Timings(self._ttft_ms, self._plan_ms, self._assemble_ms, self._prefill_ms, decode_ms, self._watch.total()),
            plan.exact,
            self._planned.repair.name,
            plan.encoding,
            plan.layout,
        )
        if self._on_finish is not None:
            self._on_finish(plan, state, self.completion)
        return self.completion

    def _usage(self) -> Usage:
        plan = self._plan
        fresh, repaired = plan.count("fresh"), plan.count("repaired")
        return Usage(
            prompt_tokens=plan.num_tokens,
            reused_tokens=plan.count("reused"),
            fresh_tokens=fresh,
            repaired_tokens=repaired,
            computed_tokens=self._waited_tokens + fresh + repaired,
            completion_tokens=len(self._token_ids),
        )
