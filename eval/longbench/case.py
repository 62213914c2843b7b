"""A record as a schema and a prompt.

Instruction, modules and question share the user's turn where LongBench uses the chat template. Joined, the texts of
schema and prompt are LongBench's prompt, to the byte.
"""

from __future__ import annotations

from dataclasses import dataclass

from eval.longbench.parts import PromptParts
from eval.longbench.split import SPLITTERS, Split, split_context
from eval.longbench.tasks import Task
from eval.longbench.truncate import Encode
from promptcache import Prompt, Schema


@dataclass(frozen=True)
class Case:
    """The schema to load and the prompt to answer."""

    schema: Schema
    prompt: Prompt


def build_case(task: Task, parts: PromptParts, split: Split, name: str) -> Case:
    """`modular`: the instruction is the schema's anonymous text and each piece of the context a module, all of them
    imported. `whole`: instruction and context are the one anonymous text. The question is the prompt's new text.

    `name` tells the schema from others; it takes letters, digits, `_`, `-` and `.`.
    """
    intro, *pieces = _stored_texts(task, parts, split)
    modules = {f"{SPLITTERS[task.name].piece}_{number}": piece for number, piece in enumerate(pieces, 1)}
    # A schema's name begins with a letter, and `2wikimqa` does not.
    full_name = f"longbench-{task.name}-{name}"
    schema = Schema.from_modules(modules, name=full_name, intro=intro, role="user" if task.chat else None, separator="")
    return Case(schema, Prompt(schema=full_name, imports=list(modules), text=parts.after))


def most_tokens(task: Task, parts: PromptParts, encode: Encode) -> int:
    """The tokens of the prompt in the split that takes most, without special tokens: a measure for `truncate`.

    Texts that are tokenized apart take a few more than the whole prompt does, and the same cut has to serve every
    split, or they could not be compared.
    """
    return max(
        len(encode(parts.text)),
        *(
            sum(len(encode(text)) for text in (*_stored_texts(task, parts, split), parts.after))
            for split in ("modular", "whole")
        ),
    )


def _stored_texts(task: Task, parts: PromptParts, split: Split) -> tuple[str, ...]:
    """The anonymous text, then each module's."""
    if split == "whole":
        return (parts.before + parts.context,)
    return (parts.before, *split_context(task.name, parts.context))
