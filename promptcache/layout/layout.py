"""A schema laid out: its tokens, their positions, and the passes that encode them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from promptcache.layout.encodings.encoding import EncodingPass, JointStates, Placed, Segment
from promptcache.layout.encodings.encoding import encoding as find_encoding
from promptcache.layout.encodings.key import KeyContext
from promptcache.layout.places import Places
from promptcache.layout.text.tree import ModuleNode, SchemaTree
from promptcache.pml import Note, Schema


@dataclass(frozen=True)
class SchemaLayout:
    """`starts` maps a module's path to its first position, `parameters` a (path, name) to its first slot; `segments`
    holds the stored segments by node index, `segment_starts` the starts of all, also of those that are computed anew in
    each request (`cache="false"`). `num_positions` is what the whole schema spans.

    `scaffolds` hold the joint states that prompts use in place of single ones.

    In the reserved policy positions are those of every prompt. In the compact one a prompt decides, and these count
    every element in the schema's order; where a stored segment was encoded is its own `start`.
    """

    schema: Schema
    tree: SchemaTree
    policy: str
    encoding: str
    passes: tuple[EncodingPass, ...]
    segments: Mapping[int, Segment]
    segment_starts: Mapping[int, int]
    starts: Mapping[str, int]
    parameters: Mapping[tuple[str, str], int]
    num_positions: int
    scaffolds: tuple[JointStates, ...] = ()
    notes: tuple[Note, ...] = field(default=(), compare=False)

    @cached_property
    def stored(self) -> tuple[Segment, ...]:
        """All segments whose states are stored, in the schema's order: single ones, then those of each scaffold."""
        groups = (self.segments, *(scaffold.segments for scaffold in self.scaffolds))
        return tuple(segment for group in groups for _, segment in sorted(group.items()))

    @cached_property
    def num_tokens(self) -> int:
        """Tokens whose states are stored."""
        return sum(segment.length for segment in self.stored)

    @cached_property
    def modules(self) -> dict[str, ModuleNode]:
        """The modules of the schema by path, itself under the empty one."""
        return {module.path: module for module in self.tree.root.walk()}

    @property
    def name(self) -> str:
        """The schema's name."""
        return self.schema.name


def laid_out(
    schema: Schema,
    tree: SchemaTree,
    places: Places,
    *,
    policy: str,
    relocates: bool,
    encoding: str,
    bos_id: int | None,
    context: KeyContext,
) -> SchemaLayout:
    """The layout of a policy that has given places to a tree. Raises RequestError for an unknown encoding."""
    placed = Placed(places.segments, places.parameters, relocatable=relocates)
    encoded = find_encoding(encoding)(tree, placed, bos_id, context)
    return SchemaLayout(
        schema=schema,
        tree=tree,
        policy=policy,
        encoding=encoding,
        passes=encoded.passes,
        segments=encoded.segments,
        segment_starts=places.segments,
        starts=places.modules,
        parameters=places.parameters,
        num_positions=places.end,
        scaffolds=encoded.scaffolds,
        notes=(*schema.notes, *tree.notes),
    )
