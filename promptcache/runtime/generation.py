"""One request from its plan to its completion."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field

from promptcache.errors import RequestError
from promptcache.layout.layout import SchemaLayout
from promptcache.layout.plan import RequestPlan
from promptcache.layout.repaired import repaired
from promptcache.layout.tokenizer import Tokenizer
from promptcache.runtime.completion import Completion, FinishReason, Usage
from promptcache.runtime.encoder import ModuleEncoder
from promptcache.runtime.options import Sampling
from promptcache.runtime.repair.base import RepairPolicy
from promptcache.runtime.repair.none import NO_REPAIR
from promptcache.runtime.repair.probe import AttentionProbe
from promptcache.runtime.state import AttentionState, attention_state
from promptcache.runtime.text_stream import TextStream
from promptcache.runtime.timing import Stopwatch, Timings
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


OnFinish = Callable[[RequestPlan, AttentionState, Completion], None]
"""Called with the plan as it ran, the state that holds all that was computed, and the reply."""


class Generation:
    """Iterating gives the reply's text as it comes; afterwards `completion` holds the result.

    The work begins with the first step of the iteration. It can be abandoned at any time, with `close`, `with`, or by
    dropping it: the blocks that it uses are given back, and nothing that is shared was written to.
    """

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self._pieces = reply.run()

    def __iter__(self) -> Iterator[str]:
        return self._pieces

    def finish(self) -> Completion:
        """Runs to the end, and gives the result."""
        for _ in self._pieces:
            pass
        return self.completion

    @property
    def completion(self) -> Completion:
        """The finished reply. Raises RequestError while the iteration is not at its end."""
        if self._reply.completion is None:
            raise RequestError("the reply is not finished", hint="iterate over it to the end first")
        return self._reply.completion

    def close(self) -> None:
        """Gives up what is left of it."""
        self._pieces.close()

    def __enter__(self) -> Generation:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Reply:
    """The work behind a `Generation`. It does not know its own iteration: nothing here refers to itself, so that what
    is dropped is gone at once."""

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
        self._room = self._room_for(sampling.max_new_tokens)
        self._stream = TextStream(tokenizer.decode, sampling.stop)
        self._on_finish = on_finish
        self._token_ids: list[int] = []
        self._reason: FinishReason = "length"
        self.completion: Completion | None = None

    def _room_for(self, max_new_tokens: int) -> int:
        limit, runs = self._encoder.adapter.max_positions, self._planned.plan.runs
        return max_new_tokens if limit is None or not runs else min(max_new_tokens, limit - runs[-1].end + 1)

    def run(self) -> Generator[str]:
        """The pieces of the text."""
        settled = settle(self._encoder, self._planned)
        with settled.blocks:
            yield from self._decode(settled)

    def _decode(self, settled: Settled) -> Iterator[str]:
        plan = settled.plan
        state = attention_state(self._planned.attention, self._encoder.adapter, plan, settled.blocks, self._room)
        assemble_ms = self._watch.lap()
        context = list(plan.token_ids)
        logits = state.prefill()[-1]
        prefill_ms = ttft_ms = 0.0
        text: list[str] = []
        while True:
            token = self._sampler.draw(logits, context)
            if not self._token_ids:
                prefill_ms, ttft_ms = self._watch.lap(), self._watch.total()
            context.append(token)
            piece, ended = self._take(token)
            text.append(piece)
            if ended:
                break
            if piece:
                yield piece
            logits = state.step(token)
        decode_ms = self._watch.lap()
        timings = Timings(ttft_ms, self._plan_ms, assemble_ms, prefill_ms, decode_ms, self._watch.total())
        self.completion = Completion(
            "".join(text),
            tuple(self._token_ids),
            self._reason,
            self._usage(settled),
            timings,
            plan.exact,
            self._planned.repair.name,
            plan.encoding,
            plan.layout,
        )
        if self._on_finish is not None:
            self._on_finish(plan, state, self.completion)
        if piece:
            yield piece

    def _take(self, token: int) -> tuple[str, bool]:
        """The text that a sampled token sets free, and whether the reply ends with it."""
        self._token_ids.append(token)
        at_eos = token in self._tokenizer.eos_ids or token in self._encoder.adapter.eos_ids
        piece = "" if at_eos else self._stream.push(token)
        ended = at_eos or self._stream.stopped or len(self._token_ids) >= self._room
        if ended:
            piece += self._stream.flush()
        if at_eos or self._stream.stopped:
            self._reason = "stop"
        return piece, ended

    def _usage(self, settled: Settled) -> Usage:
        plan = settled.plan
        fresh, repaired = plan.count("fresh"), plan.count("repaired")
        return Usage(
            prompt_tokens=plan.num_tokens,
            reused_tokens=plan.count("reused"),
            fresh_tokens=fresh,
            repaired_tokens=repaired,
            computed_tokens=settled.waited_tokens + fresh + repaired,
            completion_tokens=len(self._token_ids),
        )
