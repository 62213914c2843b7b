"""Encoding `isolated`: a module sees its own text only (the paper, section 3.3)."""

from __future__ import annotations

from promptcache.layout.encodings.encoding import Encoded, EncodingPass, PassRun, Placed, Segment, pass_of
from promptcache.layout.encodings.key import KeyContext
from promptcache.layout.text.tree import ModuleNode, ParameterNode, SchemaTree, SegmentNode


def isolated(tree: SchemaTree, placed: Placed, bos_id: int | None, context: KeyContext) -> Encoded:
    """One pass for each cached module, with its parameters' placeholders, without nested modules and members; one
    for the schema's own text. A module that no always-present text precedes has BOS in view."""
    passes: list[EncodingPass] = []
    segments: dict[int, Segment] = {}

    def visit(module: ModuleNode, text_before: bool) -> None:
        runs: list[PassRun] = []
        bos_in_view = bos_id is not None and module.path != "" and not text_before
        nested: list[tuple[ModuleNode, bool]] = []
        for item in module.items:
            if isinstance(item, SegmentNode):
                runs.append((placed.segments[item.index], item.ids, (module, item)))
                text_before = text_before or item.ids != (bos_id,)
            elif isinstance(item, ParameterNode):
                runs.append((placed.parameters[module.path, item.name], item.placeholder, None))
            else:
                members = (item,) if isinstance(item, ModuleNode) else item.members
                nested += ((member, text_before) for member in members)
        if module.cache and any(owner for _, _, owner in runs):
            if bos_in_view and bos_id is not None:
                runs.append((0, (bos_id,), None))
            made, found = pass_of(len(passes), runs, placed.relocatable, context)
            passes.append(made)
            segments.update(found)
        for inner, before in nested:
            visit(inner, before)

    visit(tree.root, text_before=False)
    return Encoded(tuple(passes), segments)
