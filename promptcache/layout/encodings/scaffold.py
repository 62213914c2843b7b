"""`<scaffold>`: modules that are also encoded together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from promptcache.layout.encodings.encoding import Encoded, EncodingPass, JointStates, PassRun, Placed, pass_of
from promptcache.layout.encodings.key import KeyContext
from promptcache.layout.text.tree import ModuleNode, ParameterNode, SchemaTree, SegmentNode


def joint_states(encoded: Encoded, tree: SchemaTree, placed: Placed, context: KeyContext) -> Encoded:
    """Adds one pass for each scaffold of the schema: its members and all text that is present whenever they are (the
    schema's own, their ancestors'), up to the end of the last member."""
    passes: list[EncodingPass] = list(encoded.passes)
    scaffolds: list[JointStates] = []
    for modules in tree.scaffolds:
        walk = _Walk(modules, placed)
        walk.module(tree.root)
        if not walk.stores:
            continue
        made, segments = pass_of(len(passes), walk.runs[: walk.end], placed.relocatable, context)
        sequence = tuple(owner[1].index if owner else None for _, _, owner in walk.runs[walk.begin : walk.end])
        passes.append(made)
        members = {index: segments[index] for index in sequence if index is not None}
        scaffolds.append(JointStates(modules, members, sequence))
    return replace(encoded, passes=tuple(passes), scaffolds=tuple(scaffolds))


class _Walk:
    """The runs of a scaffold's pass in the schema's order. Those in `[begin, end)` stand from the first member's start
    to the last one's end. What stands before the first member saw no more than in its own pass."""

    def __init__(self, modules: Sequence[str], placed: Placed) -> None:
        self.listed = frozenset(modules)
        parts = [path.split("/") for path in modules]
        self.around = {"/".join(each[:length]) for each in parts for length in range(1, len(each))}
        self.placed = placed
        self.runs: list[PassRun] = []
        self.begin: int | None = None
        self.end = 0

    @property
    def stores(self) -> bool:
        """Whether there is anything to store."""
        return self.begin is not None and any(owner for _, _, owner in self.runs[self.begin : self.end])

    def module(self, module: ModuleNode) -> None:
        if module.path in self.listed and self.begin is None:
            self.begin = len(self.runs)
        for item in module.items:
            if isinstance(item, SegmentNode):
                owner = (module, item) if module.cache else None
                self.runs.append((self.placed.segments[item.index], item.ids, owner))
            elif isinstance(item, ParameterNode):
                self.runs.append((self.placed.parameters[module.path, item.name], item.placeholder, None))
            else:
                for member in (item,) if isinstance(item, ModuleNode) else item.members:
                    if member.path in self.listed or member.path in self.around:
                        self.module(member)
        if module.path in self.listed:
            self.end = len(self.runs)
