"""A record's prompt with free positions between its modules and before its question."""

from __future__ import annotations

from collections.abc import Sequence

from eval.longbench.case import Case
from eval.longbench.parts import PromptParts
from eval.longbench.split import split_context
from eval.longbench.tasks import Task
from promptcache import Prompt, Schema
from promptcache.pml import Module, Node, Parameter, Text, Turn

MODULES = 3
"""Into so many modules a context is joined, so that so many gaps fit the model: one before each module but the first,
one before the question."""


def build_gap_case(task: Task, parts: PromptParts, gap: int, name: str) -> Case:
    """The prompt's tokens are the same for every `gap`, the number of free positions at each place.

    A gap is a module that is never imported: a parameter of that length, so that the tokenizer has no say in it. The
    question is a module that is not stored, since new text would stand right behind the last position in use.
    """
    pieces = join_pieces(split_context(task.name, parts.context), MODULES)
    children: list[Node] = [Text(parts.before)] if parts.before else []
    imports = []
    for number, piece in enumerate(pieces, 1):
        children += _free(f"gap_{number}", gap if number > 1 else 0)
        children.append(Module(f"part_{number}", (Text(piece),)))
        imports.append(f"part_{number}")
    children += _free("gap_question", gap)
    if parts.after:
        children.append(Module("question", (Text(parts.after),), cache=False))
        imports.append("question")
    full_name = f"longbench-{task.name}-{name}-gap{gap}"
    schema = Schema(full_name, (Turn("user", tuple(children)),) if task.chat else tuple(children))
    return Case(schema, Prompt(schema=full_name, imports=imports))


def join_pieces(pieces: Sequence[str], count: int) -> tuple[str, ...]:
    """Neighbours joined into at most `count` pieces of about equal length; each of them begins where a piece begins."""
    total, done = sum(map(len, pieces)), 0
    joined: dict[int, str] = {}
    for piece in pieces:
        # By the middle of each piece, so that a long one does not drag its neighbours along.
        place = min(int((done + len(piece) / 2) / total * count), count - 1)
        joined[place] = joined.get(place, "") + piece
        done += len(piece)
    return tuple(joined.values())


def _free(name: str, positions: int) -> list[Node]:
    return [Module(name, (Parameter("free", positions),))] if positions else []
