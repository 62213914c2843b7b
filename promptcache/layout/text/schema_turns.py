"""The turns of a schema, and the markers that each gets when it is laid out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from promptcache.errors import SchemaError, TurnError
from promptcache.layout.text.conversation import Markers, Trim, markers
from promptcache.layout.text.pieces import behind_bos
from promptcache.layout.text.tokenizer import Tokenizer
from promptcache.pml import Module, Node, Schema, Text, Turn, Union


@dataclass(frozen=True)
class SchemaTurn:
    """Turn number `index` (document order) of the module `owner` (a path as a tuple; empty for the schema itself).

    `behind_bos`: where it is laid out no turn stands before it, and the template opens it with a BOS. That BOS opens
    the prompt, so it is not in `markers`.
    """

    index: int
    turn: Turn
    owner: tuple[str, ...]
    markers: Markers
    behind_bos: bool


def schema_turns(schema: Schema, tokenizer: Tokenizer) -> tuple[SchemaTurn, ...]:
    """Markers of all turns. A turn is rendered among the turns present whenever it is: the schema's own, those of the
    modules around it, and its own module's.

    Raises SchemaError where the model has no template, TurnError where the template refuses.
    """
    found = list(_turns(schema.children, ()))
    if not found:
        return ()
    if not tokenizer.has_template:
        raise SchemaError(
            f"<{found[0][1].role}> needs a chat template, and this model's tokenizer has none",
            hint="write the turn as plain text, or use a chat model",
            span=found[0][1].span,
        )
    rendered: dict[tuple[str, ...], dict[int, Markers]] = {}
    turns = []
    for index, (owner, turn) in enumerate(found):
        present = [i for i, (other, _) in enumerate(found) if owner[: len(other)] == other]
        if owner not in rendered:
            try:
                written = markers(tokenizer, [found[i][1].role for i in present])
            except TurnError as error:
                raise TurnError(error.message, hint=error.hint, span=error.span or turn.span) from None
            rendered[owner] = dict(zip(present, written, strict=True))
        marker = rendered[owner][index]
        text = behind_bos(tokenizer, marker.open) if index == present[0] else marker.open
        turns.append(SchemaTurn(index, turn, owner, replace(marker, open=text), text != marker.open))
    return tuple(turns)


def trimmed(children: tuple[Node, ...], trim: Trim) -> tuple[Node, ...]:
    """A turn's children without the white space that the template drops at the turn's edges.

    White space that only some prompts have at an edge (that of a module, say) stays; `plan` refuses those prompts.
    """
    nodes = list(children)
    if nodes and isinstance(nodes[-1], Text):
        nodes[-1] = replace(nodes[-1], text=nodes[-1].text.rstrip(trim.right))
    if nodes and isinstance(nodes[0], Text):
        nodes[0] = replace(nodes[0], text=nodes[0].text.lstrip(trim.left))
    return tuple(node for node in nodes if not isinstance(node, Text) or node.text)


def _turns(nodes: tuple[Node, ...], owner: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Turn]]:
    for node in nodes:
        if isinstance(node, Turn):
            yield owner, node
            yield from _turns(node.children, owner)
        elif isinstance(node, Module):
            yield from _turns(node.children, (*owner, node.name))
        elif isinstance(node, Union):
            for member in node.modules():
                yield from _turns(member.children, (*owner, member.name))
