"""Which file holds the schema that a prompt names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from promptcache.errors import PromptError
from promptcache.pml import Prompt

_ROOT = re.compile(
    r"""
    (?: [\s\ufeff] | <\?.*?\?> | <!--.*?--> )*+    # no way back into it: many comments would take exponential time
    <([A-Za-z]+)
    (?: \s+ name \s* = \s* (["'])([^"'<]*)\2 | \s+ [\w:.-]+ \s* = \s* (?: "[^"<]*" | '[^'<]*' ) )*+
    """,
    re.DOTALL | re.VERBOSE,
)


def root_of(path: Path) -> tuple[str, str | None]:
    """The root element of a file and its attribute `name`, read without a parser: the file may be full of faults.

    Empty where the file cannot be read or does not begin with an element.
    """
    try:
        found = _ROOT.match(path.read_text(encoding="utf-8", errors="replace"))
    except (OSError, ValueError):
        return "", None
    return (found[1], found[3]) if found else ("", None)


def find_schema(prompt: Prompt, beside: Path, files: Iterable[Path], folders: Iterable[Path]) -> Path | None:
    """The file of the schema that `prompt` names; None for a prompt that names none.

    Looked at in this order: `files`, then `*.xml` in each of `folders`, then beside the prompt's file, then, where that
    lies in a folder `NAME.prompts`, beside the folder. Raises PromptError where none declares that name, or two files
    of one place do.
    """
    if prompt.schema is None:
        return None
    nearby = [beside.parent]
    if beside.absolute().parent.suffix == ".prompts":
        nearby.append(beside.parent / "..")
    places: list[list[Path]] = [list(files), *(sorted(folder.glob("*.xml")) for folder in [*folders, *nearby])]
    for place in places:
        found = [path for path in place if root_of(path) == ("schema", prompt.schema)]
        if len(found) > 1:
            names = " and ".join(str(path) for path in found)
            raise PromptError(
                f'both {names} declare the schema "{prompt.schema}"',
                hint="name the one that is meant with --schema",
                span=prompt.span,
            )
        if found:
            return found[0]
    known = sorted({name for place in places for tag, name in map(root_of, place) if tag == "schema" and name})
    raise PromptError(
        f'no file declares the schema "{prompt.schema}"',
        hint=f"name its file with --schema, or its folder with --schemas; found: {', '.join(known) or 'none'}",
        span=prompt.span,
    )
