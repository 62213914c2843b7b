"""A record with every passage a module, in three kinds."""

from __future__ import annotations

import re

from eval.longbench.case import Case, build_case
from eval.longbench.parts import PromptParts
from eval.longbench.split import split_context
from eval.longbench.tasks import Task
from promptcache import Prompt, Schema
from promptcache.pml import Module, Node, Parameter, Text, Turn

GAP = 32
"""Free positions before each passage but the first, in kind `gaps`."""

_NUMBER_LENGTH = 6
_HEADING = re.compile(r"(Passage|Paragraph) ([0-9]+)(?=:)")


def build(task: Task, parts: PromptParts, kind: str, name: str) -> Case:
    """`modular`: as in the other suites. `parameters`: the number in a passage's heading is an argument, so that all
    behind it was encoded behind a placeholder. `gaps`: before each passage a module that is never imported."""
    if kind == "modular":
        return build_case(task, parts, "modular", name)
    children: list[Node] = [Text(parts.before)] if parts.before else []
    imports: list[str] = []
    arguments: dict[str, str] = {}
    for number, piece in enumerate(split_context(task.name, parts.context), 1):
        module = f"piece_{number}"
        if kind == "gaps" and number > 1:
            children.append(Module(f"free_{number}", (Parameter("free", GAP),)))
        if kind == "parameters" and (heading := _HEADING.match(piece)):
            parameter = Parameter("number", _NUMBER_LENGTH, space=True)
            children.append(Module(module, (Text(heading[1]), parameter, Text(piece[heading.end() :]))))
            arguments[f"{module}/number"] = heading[2]
        else:
            children.append(Module(module, (Text(piece),)))
        imports.append(module)
    full_name = f"longbench-{task.name}-{name}-{kind}"
    schema = Schema(full_name, (Turn("user", tuple(children)),) if task.chat else tuple(children))
    return Case(schema, Prompt(schema=full_name, imports=imports, arguments=arguments, text=parts.after))
