"""Warnings that need no tokenizer: what is legal, and is likely not what was meant or costs quality."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from promptcache.pml.nodes import Module, NewText, NewTurn, Node, Parameter, Text, Turn, Union
from promptcache.pml.note import Note


def schema_notes(nodes: Sequence[Node]) -> tuple[Note, ...]:
    """All warnings about a schema's nodes, in document order."""
    borders: list[Note] = []
    _borders(nodes, None, borders)
    notes = [*borders, *_small_unions(nodes)]
    if _has_turn(nodes):
        notes += [_outside(node) for node in nodes if _speaks_outside(node)]
    return tuple(sorted(notes, key=lambda note: (note.span.line, note.span.column) if note.span else (0, 0)))


def prompt_notes(nodes: Sequence[Node], items: Sequence[object], turns: Sequence[NewTurn]) -> tuple[Note, ...]:
    """A warning where the text behind a prompt's last import belongs to no turn, and there are turns."""
    last = items[-1] if items else None
    continues = bool(nodes) and isinstance(nodes[-1], Turn) and nodes[-1].role == "user"
    if isinstance(last, NewText) and not continues and (turns or _has_turn(nodes)):
        return (_outside(last),)
    return ()


def _outside(node: Node | NewText) -> Note:
    what = f'module "{node.name}"' if isinstance(node, Module) else "text" if not isinstance(node, Union) else "a union"
    return Note(f"{what} stands outside of the turns, and the model sees it there as it is", node.span)


def _borders(nodes: Sequence[Node], behind: str | None, notes: list[Note]) -> str | None:
    """Adds the texts that end in a lone space or in mid-word.

    `behind` names what stands behind the nodes if that can begin in mid-word; the return value is the same for what
    stands before them.
    """
    for node in reversed(nodes):
        if isinstance(node, Text):
            end = node.text[-12:].rsplit("\n", 1)[-1]
            if behind and _is_word(node.text[-1]):
                notes.append(
                    Note(
                        f'"...{end}" is cut in mid-word: {behind} follows. Put a space or a line break there', node.span
                    )
                )
            if node.text.endswith(" ") and node.text[-2:-1] not in (" ", "\t", "\n"):
                notes.append(
                    Note(f'"...{end}" ends in a lone space, a token of its own. Break the line there', node.span)
                )
            behind = "text" if _is_word(node.text[0]) else None
        elif isinstance(node, Parameter):
            behind = None if node.space else f'parameter "{node.name}"'
        elif isinstance(node, Turn):
            _borders(node.children, None, notes)
            behind = None
        else:
            # A module may be left out, so what stands behind it may follow directly.
            modules = [node] if isinstance(node, Module) else list(node.modules())
            starts = [_borders(module.children, behind, notes) and f'module "{module.name}"' for module in modules]
            behind = next((start for start in starts if start), behind)
    return behind


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _small_unions(nodes: Iterable[Node]) -> Iterator[Note]:
    for node in nodes:
        if isinstance(node, Union):
            modules = list(node.modules())
            if len(modules) == 1:
                yield Note(f'the union has one member, "{modules[0].name}"', node.span)
            for module in modules:
                yield from _small_unions(module.children)
        elif isinstance(node, Module | Turn):
            yield from _small_unions(node.children)


def _has_turn(nodes: Iterable[Node]) -> bool:
    return any(isinstance(node, Turn) or _has_turn(_inside(node)) for node in nodes)


def _speaks_outside(node: Node) -> bool:
    """Whether there is text in it that no turn holds."""
    if isinstance(node, Text | Parameter):
        return True
    return not isinstance(node, Turn) and any(_speaks_outside(child) for child in _inside(node))


def _inside(node: Node) -> Sequence[Node]:
    if isinstance(node, Module | Turn):
        return node.children
    return node.members if isinstance(node, Union) else ()
