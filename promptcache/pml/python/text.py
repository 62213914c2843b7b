"""String statements: which pieces of text and which bounded arguments they hold, and how they are dedented."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

from promptcache.errors import SchemaError
from promptcache.pml.python.arguments import Argument, refuse_illegal
from promptcache.pml.python.body import Line, Slot
from promptcache.pml.python.locate import Located
from promptcache.pml.whitespace import Kind, dedent

_LEADING = re.compile(r"\A[ \t\r\n]*\n")
_TRAILING = re.compile(r"[ \t\r]*\n[ \t\r\n]*\Z")


def read_line(node: ast.Constant | ast.JoinedStr, arguments: Mapping[str, Argument], located: Located) -> Line:
    """The statement `node`, a string or an f-string. Raises SchemaError for what a schema cannot hold."""
    span = located.span(node)
    texts = [""]
    slots = []
    for piece in node.values if isinstance(node, ast.JoinedStr) else [node]:
        if isinstance(piece, ast.Constant) and isinstance(piece.value, str):
            texts[-1] += piece.value
        else:
            slots.append(_slot(piece, arguments, located))
            texts.append("")
    refuse_illegal("".join(texts), "the string", span)
    return Line(tuple(_laid_out(texts)), tuple(slots), span)


def _slot(piece: ast.expr, arguments: Mapping[str, Argument], located: Located) -> Slot:
    span = located.span(piece)
    if not isinstance(piece, ast.FormattedValue) or not isinstance(piece.value, ast.Name):
        raise SchemaError(
            f"`{ast.unparse(piece)}` stands in an f-string, and only a bounded argument may",
            hint="give the function an argument annotated with MaxTokens, and write its bare name in the braces",
            span=span,
        )
    name = piece.value.id
    if piece.conversion != -1 or piece.format_spec is not None:
        raise SchemaError(
            f"`{{{name}}}` has a format, and an argument is placed as it is",
            hint=f"write {{{name}}}, and format the value in the call",
            span=span,
        )
    if name not in arguments:
        raise SchemaError(
            f"`{name}` is not an argument of the function, so a prompt could not fill it",
            hint=f"write the text itself, or add the argument `{name}: Annotated[str, MaxTokens(5)]`",
            span=span,
        )
    if arguments[name].bound is None:
        raise SchemaError(
            f"`{name}` has no bound, so no room can be reserved for it",
            hint=f"annotate it: `{name}: Annotated[str, MaxTokens(5)]`, with the longest length in tokens",
            span=span,
        )
    return Slot(name, span)


def _laid_out(texts: list[str]) -> list[str]:
    """The texts between the slots, without the white space that only lays out the source.

    Lines are dedented as those of an XML element: the line of the opening quotes does not count. White space at either
    end goes as far as it holds a line break, since a statement stands on lines of its own.
    """
    texts = dedent(texts, [Kind.PARAMETER] * (len(texts) - 1))
    texts[0] = _LEADING.sub("", texts[0])
    texts[-1] = _TRAILING.sub("", texts[-1])
    return texts
