"""Whether what stands before new text ends in a line break."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from promptcache.pml.bound import BoundImport
from promptcache.pml.nodes import Module, Node, Parameter, Text, Turn
from promptcache.pml.schema import Schema


def import_ends_in_break(item: BoundImport) -> bool:
    """Whether an import's own content ends in a line break."""
    return bool(_import_ends(item))


def prompt_ends_in_break(schema: Schema, imports: Sequence[BoundImport]) -> bool:
    """Whether a schema, with these imports, ends in a line break: what the text behind the last import follows.

    A last turn of the user is still open there. Any other turn ends in a marker that only the model's template knows.
    """
    nodes: Sequence[Node] = schema.children
    if nodes and isinstance(nodes[-1], Turn) and nodes[-1].role == "user":
        nodes = nodes[-1].children
    return bool(_ends(nodes, imports, {}))


def _import_ends(item: BoundImport) -> bool | None:
    return _ends(item.module.children, item.imports, dict(item.arguments))


def _ends(nodes: Sequence[Node], imports: Sequence[BoundImport], arguments: Mapping[str, str]) -> bool | None:
    """None where there is nothing that could end in anything."""
    last = {item.module.name: item for item in imports}
    for node in reversed(nodes):
        ends: bool | None = None
        if isinstance(node, Text):
            ends = node.text.endswith("\n")
        elif isinstance(node, Parameter):
            value = arguments.get(node.name)
            ends = value.endswith("\n") if value else None
        elif isinstance(node, Turn):
            ends = False
        else:
            modules = [node] if isinstance(node, Module) else node.modules()
            for item in (last[module.name] for module in modules if module.name in last):
                ends = _import_ends(item)
        if ends is not None:
            return ends
    return None
