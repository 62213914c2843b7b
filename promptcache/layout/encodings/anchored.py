"""Encoding `anchored`: a module also sees the text that stands before it in every prompt that imports it."""

from __future__ import annotations

from promptcache.layout.encodings.encoding import Encoded, EncodingPass, PassRun, Placed, Segment, pass_of
from promptcache.layout.encodings.key import KeyContext
from promptcache.layout.text.tree import ModuleNode, ParameterNode, SchemaTree, SegmentNode, UnionNode


def anchored(tree: SchemaTree, placed: Placed, bos_id: int | None, context: KeyContext) -> Encoded:
    """One pass for each cached module and one for the schema's own text, each behind its anchors: the schema's own text
    and its ancestors', with their parameters' placeholders. A union that names a `scaffold` member has that member's
    own text in its place for all that stands behind it. BOS is a part of the schema's own text."""
    passes: list[EncodingPass] = []
    segments: dict[int, Segment] = {}

    def visit(module: ModuleNode, anchors: list[PassRun]) -> None:
        runs: list[PassRun] = []
        end = 0  # behind the last run that is stored: what follows it is not needed
        nested: list[tuple[ModuleNode, list[PassRun]]] = []
        for item in module.items:
            if isinstance(item, SegmentNode):
                runs.append((placed.segments[item.index], item.ids, (module, item)))
                end = len(runs)
            elif isinstance(item, ParameterNode):
                runs.append((placed.parameters[module.path, item.name], item.placeholder, None))
            else:
                before = [*anchors, *((start, ids, None) for start, ids, _ in runs)]
                nested += ((member, before) for member in _members(item))
                if isinstance(item, UnionNode):
                    runs += _stand_in(item, placed)
        if module.cache and end:
            made, found = pass_of(len(passes), [*anchors, *runs[:end]], placed.relocatable, context)
            passes.append(made)
            segments.update(found)
        for inner, before in nested:
            visit(inner, before)

    visit(tree.root, [])
    return Encoded(tuple(passes), segments)


def _members(item: ModuleNode | UnionNode) -> tuple[ModuleNode, ...]:
    return (item,) if isinstance(item, ModuleNode) else item.members


def _stand_in(union: UnionNode, placed: Placed) -> list[PassRun]:
    """The own text of the member that stands in for a union, as tokens only seen; none where it names none."""
    member = next((each for each in union.members if each.path.split("/")[-1] == union.scaffold), None)
    runs: list[PassRun] = []
    for item in member.items if member else ():
        if isinstance(item, SegmentNode):
            runs.append((placed.segments[item.index], item.ids, None))
        elif isinstance(item, ParameterNode):
            assert member is not None
            runs.append((placed.parameters[member.path, item.name], item.placeholder, None))
        elif isinstance(item, UnionNode):
            runs += _stand_in(item, placed)
    return runs
