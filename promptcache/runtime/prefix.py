"""One static text or conversation before many short ones: encoded once, exact at the seam."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Unpack, overload

import torch

from promptcache.errors import LayoutError, RequestError
from promptcache.layout.known import common_prefix, reuse_known
from promptcache.layout.plain import continued_ids, plain_tail, plan_of_ids
from promptcache.layout.plan import RequestPlan
from promptcache.layout.token_tree import TokenTree
from promptcache.pml import Prompt, bind
from promptcache.runtime.asked import Asked, score_batches, score_one
from promptcache.runtime.reply.answers import numbered
from promptcache.runtime.reply.completion import Completion
from promptcache.runtime.reply.generation import Generation
from promptcache.runtime.reply.options import Sampling, SamplingOptions
from promptcache.runtime.requests import Requests
from promptcache.runtime.schemas import LoadedSchema
from promptcache.runtime.scoring import Classification, Score
from promptcache.runtime.settled import Planned
from promptcache.runtime.timing import Stopwatch

Message = Mapping[str, str]
Suffix = str | Sequence[Message]


class Prefix:
    """Underneath it is a schema of one anonymous text. The whole prompt is tokenized for every suffix and the longest
    common token prefix is reused, so ids are always those of the unsplit prompt, wherever it was split.

    A prefix of text takes text; one of messages takes further messages, or a string as the next user turn, behind
    which the assistant's turn is opened.
    """

    def __init__(self, requests: Requests, schema: LoadedSchema, start: str | Sequence[Message]) -> None:
        self._requests = requests
        self._start = start
        self.schema = schema

    @property
    def num_tokens(self) -> int:
        """Tokens whose states are stored."""
        return self.schema.num_tokens

    def plan(self, suffix: Suffix = "") -> RequestPlan:
        """Token ids, positions and runs of the whole prompt."""
        return self._reusing(self._requests.plan(self._prompt(suffix), None))

    def generate(self, suffix: Suffix = "", *, reuse: bool = True, **options: Unpack[SamplingOptions]) -> Completion:
        """The reply to prefix and suffix."""
        return self.stream(suffix, reuse=reuse, **options).finish()

    def stream(self, suffix: Suffix = "", *, reuse: bool = True, **options: Unpack[SamplingOptions]) -> Generation:
        """As `generate`, piece by piece."""
        watch = Stopwatch(self._requests.adapter.devices.wait)
        sampling = Sampling.of(options)
        planned = self._requests.planned(self.plan(suffix), self.schema.layout, reuse=reuse)
        return self._requests.generation(planned, sampling, watch)

    def generate_batch(
        self,
        suffixes: Sequence[Suffix],
        *,
        max_batch: int = 32,
        reuse: bool = True,
        each: Sequence[SamplingOptions] | None = None,
        **options: Unpack[SamplingOptions],
    ) -> list[Completion]:
        """The replies to the prefix with each of the suffixes; see `PromptCache.generate_batch`."""

        def planned(suffix: Suffix) -> Planned:
            return self._requests.planned(self.plan(suffix), self.schema.layout, reuse=reuse)

        return self._requests.answers(suffixes, planned, options, each, max_batch)

    def logits(self, suffix: Suffix = "", *, reuse: bool = True) -> torch.Tensor:
        """Logits of the first new token: float32 [vocab_size]."""
        planned = self._requests.planned(self.plan(suffix), self.schema.layout, reuse=reuse)
        return self._requests.assemble(planned).prefill()[-1]

    def forward(self, suffix: Suffix = "") -> torch.Tensor:
        """Logits of all tokens that are not reused: float32 [tokens, vocab_size]. The last row predicts the first new
        token; there are as many rows as `plan(suffix)` has fresh and repaired tokens."""
        planned = self._requests.planned(self.plan(suffix), self.schema.layout)
        return self._requests.assemble(planned).prefill(keep=0)

    def score(self, suffix: Suffix, continuations: Sequence[str], *, reuse: bool = True) -> list[Score]:
        """The log-probability of each continuation behind prefix and suffix, in one forward pass.

        A continuation's tokens are those that the whole string has behind the tokens of the prompt; where a token spans
        the border, it is counted from there on, for all continuations alike. With messages a continuation is the
        assistant's text. Raises RequestError when there are none or one is empty.
        """
        return score_one(self._requests, self._asked(suffix, continuations, reuse))

    def score_batch(
        self, suffixes: Sequence[Suffix], continuations: Sequence[str], *, reuse: bool = True, batch_size: int = 32
    ) -> list[list[Score]]:
        """As `score` for each suffix, `batch_size` of them in one pass, which attends the prefix once for all."""
        asked = numbered(suffixes, lambda suffix: self._asked(suffix, continuations, reuse))
        return list(score_batches(self._requests, asked, batch_size))

    @overload
    def classify(  # type: ignore[overload-overlap]
        self,
        items: str,
        labels: Sequence[str],
        template: str = ...,
        *,
        normalize: bool = ...,
        separator: str | None = ...,
        batch_size: int = ...,
    ) -> Classification: ...

    @overload
    def classify(
        self,
        items: Sequence[str],
        labels: Sequence[str],
        template: str = ...,
        *,
        normalize: bool = ...,
        separator: str | None = ...,
        batch_size: int = ...,
    ) -> list[Classification]: ...

    def classify(
        self,
        items: str | Sequence[str],
        labels: Sequence[str],
        template: str = "Ticket: {item}\nCategory:",
        *,
        normalize: bool = True,
        separator: str | None = None,
        batch_size: int = 32,
    ) -> Classification | list[Classification]:
        """The most likely label for each item (a string is one item), by log-probability per token, or in sum with
        `normalize` false. Up to `batch_size` items are scored in one pass.

        `{item}` in the template is the item; with messages the filled template is the next user turn. `separator`
        stands before the label: by default one space behind text that does not end in white space, nothing where the
        assistant's turn has just been opened. Labels need no order and may begin with each other. Raises RequestError.
        """
        if len(set(labels)) != len(labels) or not labels:
            raise RequestError("there are no labels, or one stands there twice", hint="give each label once")
        if "{item}" not in template:
            raise RequestError("the template has no {item}", hint='for example "Ticket: {item}\\nCategory:"')

        def asked(item: str) -> Asked:
            suffix = template.replace("{item}", item)
            space = separator
            if space is None:
                space = " " if isinstance(self._start, str) and suffix == suffix.rstrip() else ""
            return self._asked(suffix, [space + label for label in labels], True)

        every = [items] if isinstance(items, str) else items
        scores = score_batches(self._requests, numbered(every, asked), batch_size)
        found = [Classification.of(dict(zip(labels, each, strict=True)), normalize) for each in scores]
        return found[0] if isinstance(items, str) else found

    def _asked(self, suffix: Suffix, continuations: Sequence[str], reuse: bool) -> Asked:
        if not continuations or not all(continuations):
            raise RequestError("there are no continuations, or one is empty", hint="give non-empty texts")
        tokenizer = self._requests.tokenizer
        tail = plain_tail(bind(self._prompt(suffix), None), tokenizer)
        whole, *texts = continued_ids(tail, tokenizer, ["", *continuations])
        base = min(min(common_prefix(whole, ids), len(ids) - 1) for ids in texts)
        if base == 0:
            raise RequestError("nothing stands before the continuations", hint="give a prefix or a suffix")
        rest = [ids[base:] for ids in texts]
        tree = TokenTree.of(rest)
        self._check_room(base, max(tree.depths, default=0))
        plan = self._reusing(plan_of_ids(whole[:base], self._requests.layout))
        return Asked(self._requests.planned(plan, self.schema.layout, reuse=reuse), tree, rest)

    def _prompt(self, suffix: Suffix) -> Prompt:
        if isinstance(self._start, str):
            if not isinstance(suffix, str):
                raise RequestError("a prefix of text takes text", hint="make the prefix from messages")
            return Prompt(text=self._start + suffix)
        more = [{"role": "user", "content": suffix}] if isinstance(suffix, str) and suffix else suffix or []
        return Prompt(messages=[*self._start, *more])

    def _reusing(self, whole: RequestPlan) -> RequestPlan:
        return reuse_known(whole, {0: list(self.schema.layout.segments.values())})

    def _check_room(self, tokens: int, deepest: int) -> None:
        limit = self._requests.adapter.max_positions
        if limit is not None and tokens + deepest > limit:
            raise LayoutError(
                f"prompt and continuations take {tokens + deepest} tokens and the model has {limit} positions",
                hint="shorten the prompt",
            )
