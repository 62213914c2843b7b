"""One request's tokens: which come from the store, which are computed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise
from typing import Literal

from promptcache.layout.encodings.encoding import EncodingPass, Segment

Kind = Literal["reused", "fresh", "repaired"]


@dataclass(frozen=True)
class Run:
    """Tokens at the positions `[start, start + length)`, all of one kind.

    `segment` is the stored segment that they belong to (reused, repaired), `offset` the first of them within it.
    """

    start: int
    ids: tuple[int, ...]
    kind: Kind
    segment: Segment | None = None
    offset: int = 0

    @property
    def length(self) -> int:
        """Tokens."""
        return len(self.ids)

    @property
    def end(self) -> int:
        """The position behind its last token."""
        return self.start + len(self.ids)

    @property
    def shift(self) -> int:
        """How many positions behind its place of encoding a stored run is used; negative before it."""
        return 0 if self.segment is None else self.start - self.offset - self.segment.start


@dataclass(frozen=True)
class RequestPlan:
    """A prompt's runs by position. No two overlap, none is empty, and the last one is computed.

    `exact`: every reused state is what a full prefill of these ids at these positions would have computed.
    """

    schema: str | None
    runs: tuple[Run, ...]
    exact: bool
    layout: str
    encoding: str

    @cached_property
    def token_ids(self) -> tuple[int, ...]:
        """The whole prompt in position order."""
        return tuple(chain.from_iterable(run.ids for run in self.runs))

    @cached_property
    def position_ids(self) -> tuple[int, ...]:
        """The position of each token."""
        return tuple(chain.from_iterable(range(run.start, run.end) for run in self.runs))

    def count(self, kind: Kind) -> int:
        """Tokens of that kind."""
        return sum(run.length for run in self.runs if run.kind == kind)

    @property
    def computed(self) -> tuple[Run, ...]:
        """The runs whose tokens go through the model: fresh and repaired."""
        return tuple(run for run in self.runs if run.kind != "reused")

    @property
    def computed_ids(self) -> list[int]:
        """Their tokens, by position."""
        return [token for run in self.computed for token in run.ids]

    @property
    def computed_positions(self) -> list[int]:
        """The positions of these."""
        return [position for run in self.computed for position in range(run.start, run.end)]

    @property
    def num_computed(self) -> int:
        """How many these are."""
        return self.num_tokens - self.count("reused")

    @property
    def num_tokens(self) -> int:
        """Tokens of the whole prompt."""
        return sum(run.length for run in self.runs)

    @property
    def end(self) -> int:
        """The position behind the last token; 0 where there is none."""
        return self.runs[-1].end if self.runs else 0

    def without_reuse(self) -> RequestPlan:
        """The same ids at the same positions, all computed: the baseline."""
        runs = tuple(Run(run.start, run.ids, "fresh") for run in self.runs)
        return RequestPlan(self.schema, runs, True, self.layout, self.encoding)


def finish_runs(runs: Iterable[Run]) -> tuple[Run, ...]:
    """Runs sorted by position, and the last token computed: when it is stored its state is there,
    but not the hidden state that predicts the next one, so it is repaired."""
    ordered = sorted(runs, key=lambda run: run.start)
    for left, right in pairwise(ordered):
        assert left.end <= right.start, "two runs at one position"
    if ordered and ordered[-1].kind == "reused":
        last = ordered.pop()
        head = Run(last.start, last.ids[:-1], "reused", last.segment, last.offset)
        tail = Run(last.end - 1, last.ids[-1:], "repaired", last.segment, last.offset + last.length - 1)
        ordered += [head, tail] if head.ids else [tail]
    return tuple(ordered)


def is_exact(runs: Sequence[Run], passes: Sequence[EncodingPass]) -> bool:
    """Whether each reused run saw exactly the tokens that stand before it in this prompt."""
    return all(exact for run, exact in zip(runs, exact_runs(runs, passes), strict=True) if run.kind == "reused")


def exact_runs(runs: Sequence[Run], passes: Sequence[EncodingPass]) -> Iterator[bool]:
    """For each run whether it has a stored state, and that saw exactly the tokens that stand before it."""
    ids: list[int] = []
    places: list[int] = []
    for run in runs:
        exact = False
        if run.segment is not None and run.segment.encoding_pass >= 0:
            made, seen = passes[run.segment.encoding_pass], run.segment.offset + run.offset
            exact = seen == len(ids) and made.ids[:seen] == tuple(ids) and made.positions[:seen] == tuple(places)
        yield exact
        ids += run.ids
        places += range(run.start, run.end)
