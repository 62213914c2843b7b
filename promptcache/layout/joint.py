"""Which runs of a prompt use the joint states of a scaffold."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from promptcache.layout.encodings.encoding import JointStates, Segment
from promptcache.layout.layout import SchemaLayout
from promptcache.layout.plan import Run


def use_joint_states(
    layout: SchemaLayout, runs: Sequence[Run], imported: Collection[str], *, relocates: bool = False
) -> list[Run]:
    """The runs of a placed prompt, with joint states where it imports all members of a scaffold (paths).

    Where scaffolds overlap, the one of most members wins, then of most tokens, then the first. Where states are moved
    (`relocates`) joint states serve only members that stand as they were encoded: in that order, with nothing between
    them but their arguments. Elsewhere they would have seen each other at distances that the prompt does not have.
    """
    fitting = [each for each in layout.scaffolds if set(each.modules) <= set(imported)]
    if not fitting:
        return list(runs)
    fitting.sort(key=lambda each: (-len(each.modules), -each.num_tokens))
    nodes = {(segment.encoding_pass, segment.offset): index for index, segment in layout.segments.items()}
    numbers = [nodes[s.encoding_pass, s.offset] if (s := run.segment) else None for run in runs]
    chosen: dict[int, Segment] = {}
    for scaffold in fitting:
        for found in _places(scaffold, numbers) if relocates else [_everywhere(scaffold, numbers)]:
            if not relocates or not found.keys() & chosen.keys():
                chosen = {**found, **chosen}
    return [replace(run, segment=chosen[n]) if n in chosen else run for n, run in enumerate(runs)]


def _everywhere(scaffold: JointStates, numbers: Sequence[int | None]) -> Mapping[int, Segment]:
    """Joint states by run, wherever a segment of the scaffold stands."""
    joint = scaffold.segments
    return {n: joint[node] for n, node in enumerate(numbers) if node is not None and node in joint}


def _places(scaffold: JointStates, numbers: Sequence[int | None]) -> Iterator[Mapping[int, Segment]]:
    """Joint states by run, for each place where the runs are the scaffold's sequence."""
    for begin in range(len(numbers)):
        at, found = begin, {}
        for node in scaffold.sequence:
            fresh = at < len(numbers) and numbers[at] is None
            if node is None:
                at += fresh
            elif at < len(numbers) and numbers[at] == node:
                found[at] = scaffold.segments[node]
                at += 1
            else:
                break
        else:
            yield found
