"""Equal content as equal nodes: what a schema does to the children it is given."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from promptcache.pml.nodes import Node, Parameter, Text, Union


def canonical(nodes: Iterable[Node]) -> tuple[Node, ...]:
    """The same content with neighbouring texts merged, empty ones gone, and the space before a parameter its own.

    One space before a parameter belongs to the argument and counts towards its length.
    """
    done: list[Node] = []
    texts: list[Text] = []  # those since the last other node
    for node in nodes:
        if isinstance(node, Text):
            texts.append(node)
            continue
        merged = "".join(text.text for text in texts)
        if isinstance(node, Parameter) and not node.space and merged.endswith(" "):
            merged = merged[:-1]
            node = replace(node, space=True)
        if merged:
            done.append(replace(texts[0], text=merged))
        texts = []
        done.append(_inside(node))
    if merged := "".join(text.text for text in texts):
        done.append(replace(texts[0], text=merged))
    return tuple(done)


def _inside(node: Node) -> Node:
    if isinstance(node, Text | Parameter):
        return node
    return _union(node) if isinstance(node, Union) else replace(node, children=canonical(node.children))


def _union(union: Union) -> Union:
    members = (
        _union(member) if isinstance(member, Union) else replace(member, children=canonical(member.children))
        for member in union.members
    )
    return replace(union, members=tuple(members))
