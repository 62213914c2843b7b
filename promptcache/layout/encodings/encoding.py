"""What is in view while a module is encoded: the contract, and the encodings by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import accumulate

from promptcache.errors import RequestError
from promptcache.layout.encodings.key import KeyContext, SegmentKey
from promptcache.layout.text.tree import ModuleNode, SchemaTree, SegmentNode


@dataclass(frozen=True)
class Segment:
    """A stored run of token ids at consecutive positions from `start`, the position it was encoded at.

    `owner` is the path of its module (empty for the schema's own text). Its states are the slice
    `[offset, offset + length)` of the pass number `encoding_pass`; what it saw are that pass's tokens before `offset`.
    """

    key: SegmentKey
    ids: tuple[int, ...]
    start: int
    owner: str
    encoding_pass: int
    offset: int

    @property
    def length(self) -> int:
        """Tokens."""
        return len(self.ids)

    @property
    def end(self) -> int:
        """The position behind its last token."""
        return self.start + len(self.ids)


@dataclass(frozen=True)
class EncodingPass:
    """One causal forward pass: token ids and their positions, ascending. Tokens that belong to no segment of the pass
    (a parameter's placeholder, a BOS in view) are seen and not stored."""

    ids: tuple[int, ...]
    positions: tuple[int, ...]


@dataclass(frozen=True)
class Placed:
    """Where a policy put the items of a tree, for encodings: start positions by segment index and by
    (module path, parameter name). `relocatable`: states can be moved, and only the order of the positions counts."""

    segments: Mapping[int, int]
    parameters: Mapping[tuple[str, str], int]
    relocatable: bool


Encoding = Callable[[SchemaTree, Placed, int | None, KeyContext], "Encoded"]
"""(tree, places, BOS id, key context) -> passes and segments."""


@dataclass(frozen=True)
class JointStates:
    """What a `<scaffold>` of these modules (paths) encoded in one pass, from its first member to its last.

    `segments` are by node index. `sequence` lists them in the order of the pass, with None for each place where a
    prompt may have a fresh run: a parameter, text that is never stored.
    """

    modules: tuple[str, ...]
    segments: Mapping[int, Segment]
    sequence: tuple[int | None, ...]

    @property
    def num_tokens(self) -> int:
        """Tokens stored."""
        return sum(segment.length for segment in self.segments.values())


@dataclass(frozen=True)
class Encoded:
    """The passes of a schema, its segments by their node's index, and those of its scaffolds."""

    passes: tuple[EncodingPass, ...]
    segments: Mapping[int, Segment]
    scaffolds: tuple[JointStates, ...] = ()


PassRun = tuple[int, tuple[int, ...], tuple[ModuleNode, SegmentNode] | None]
"""Start, ids, and the segment with its owner that they are; None for tokens that are only seen."""


def pass_of(
    number: int,
    runs: list[PassRun],
    relocatable: bool,
    context: KeyContext,
) -> tuple[EncodingPass, dict[int, Segment]]:
    """A pass over these runs, and the segments in it by node index.

    Where states can be moved, starts decide the order only: positions run from 0 without gaps, so that the same text
    under the same view has the same states wherever a schema holds it.
    """
    runs = sorted((run for run in runs if run[1]), key=lambda run: run[0])
    if relocatable:
        starts = accumulate((len(ids) for _, ids, _ in runs), initial=0)
        runs = [(start, ids, owner) for start, (_, ids, owner) in zip(starts, runs, strict=False)]
    ids: list[int] = []
    positions: list[int] = []
    segments: dict[int, Segment] = {}
    for start, run, owner in runs:
        if owner is not None:
            module, node = owner
            saw = [(position - start, token) for position, token in zip(positions, ids, strict=True)]
            key = context.key(run, saw=saw, start=None if relocatable else start)
            segments[node.index] = Segment(key, run, start, module.path, number, len(ids))
        ids += run
        positions += range(start, start + len(run))
    return EncodingPass(tuple(ids), tuple(positions)), segments


def encoding(name: str) -> Encoding:
    """The encoding of that name, scaffolds included. Raises RequestError for an unknown one."""
    from promptcache.layout.encodings.anchored import anchored
    from promptcache.layout.encodings.isolated import isolated
    from promptcache.layout.encodings.scaffold import joint_states

    known: dict[str, Encoding] = {"anchored": anchored, "isolated": isolated}
    if name not in known:
        raise RequestError(f"unknown encoding {name!r}", hint=f"known are: {', '.join(sorted(known))}")

    def encode(tree: SchemaTree, placed: Placed, bos_id: int | None, context: KeyContext) -> Encoded:
        encoded = known[name](tree, placed, bos_id, context)
        return joint_states(encoded, tree, placed, context)

    return encode
