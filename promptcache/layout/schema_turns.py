"""The turns of a schema, and the markers that each gets when it is laid out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from promptcache.errors import SchemaError, TurnError
from promptcache.layout.conversation import Markers, markers, render
from promptcache.layout.tokenizer import Tokenizer
from promptcache.pml import Module, Node, Schema, Turn, Union


@dataclass(frozen=True)
class SchemaTurn:
    """Turn number `index` (document order) of the module `owner` (a path as a tuple; empty for the schema itself).

    `first`: no turn stands before it where it is laid out. `strips`: the template drops white space at its edges.
    """

    index: int
    turn: Turn
    owner: tuple[str, ...]
    markers: Markers
    first: bool
    strips: bool


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
    rendered: dict[tuple[str, ...], dict[int, tuple[Markers, bool]]] = {}
    turns = []
    for index, (owner, turn) in enumerate(found):
        if owner not in rendered:
            present = [i for i, (other, _) in enumerate(found) if owner[: len(other)] == other]
            try:
                written = markers(tokenizer, [found[i][1].role for i in present])
            except TurnError as error:
                raise TurnError(error.message, hint=error.hint, span=error.span or turn.span) from None
            rendered[owner] = {i: (marker, i == present[0]) for i, marker in zip(present, written, strict=True)}
        marker, first = rendered[owner][index]
        turns.append(SchemaTurn(index, turn, owner, marker, first, _strips(tokenizer, turn.role)))
    return tuple(turns)


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


def _strips(tokenizer: Tokenizer, role: str) -> bool:
    """Whether the template strips this role's contents; a role that cannot stand alone is tried behind a user turn."""
    for turns in ([(role, "x")], [("user", "x"), (role, "x")]):
        try:
            return render(tokenizer, turns, open_assistant=False).strips
        except TurnError:
            continue
    return False
