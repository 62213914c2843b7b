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
    for node in nodes:
        before = done[-1] if done else None
        if isinstance(node, Text):
            if isinstance(before, Text):
                done[-1] = replace(before, text=before.text + node.text)
            elif node.text:
                done.append(node)
        elif isinstance(node, Parameter):
            if not node.space and isinstance(before, Text) and before.text.endswith(" "):
                done.pop()
                if len(before.text) > 1:
                    done.append(replace(before, text=before.text[:-1]))
                node = replace(node, space=True)
            done.append(node)
        elif isinstance(node, Union):
            done.append(_union(node))
        else:
            done.append(replace(node, children=canonical(node.children)))
    return tuple(done)


def _union(union: Union) -> Union:
    members = (
        _union(member) if isinstance(member, Union) else replace(member, children=canonical(member.children))
        for member in union.members
    )
    return replace(union, members=tuple(members))
