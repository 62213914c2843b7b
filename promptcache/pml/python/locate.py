"""Finds the syntax tree of a function in the file that it was read from."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import FunctionType

from promptcache.errors import SchemaError
from promptcache.source import Source, Span

_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Located:
    """A function's syntax tree inside the whole source that holds it. `lines` are the source's, without line breaks."""

    source: Source
    lines: tuple[str, ...]
    node: ast.FunctionDef

    def span(self, node: ast.AST) -> Span:
        """Where `node` begins. `ast` counts columns in UTF-8 bytes, a span in characters."""
        return _span(self.source, self.lines, node)


def locate(function: FunctionType) -> Located:
    """The tree of `function`.

    The whole file is parsed, not the function's own lines: places are then those of the file, and text inside
    triple-quoted strings keeps its indentation. Raises SchemaError where the source cannot be read, or is not that of
    this function.
    """
    name = function.__name__
    code = function.__code__
    linecache.checkcache(code.co_filename)
    source = Source(code.co_filename, "".join(linecache.getlines(code.co_filename, function.__globals__)))
    if not source.text:
        raise SchemaError(
            f"@schema reads the source of `{name}`, and there is none for {code.co_filename}",
            hint="define the function in a file; code made by exec or read from standard input keeps no source",
        )
    functions, lines = _parse(source.text)
    node = functions.get((code.co_name, code.co_firstlineno))
    if node is not None and _parameters(node) == _variables(function):
        if isinstance(node, ast.FunctionDef):
            return Located(source, lines, node)
        raise SchemaError(
            f"`{name}` is async, and a schema function is never run",
            hint="write it with `def`",
            span=_span(source, lines, node),
        )
    if code.co_name == "<lambda>":
        raise SchemaError(
            "a lambda holds no statements, so it cannot be a schema",
            hint="write a function with `def` under @schema",
            span=Span(source, code.co_firstlineno, 1),
        )
    raise SchemaError(
        f"the source of `{name}` in {code.co_filename} is not that of the function that runs",
        hint="the file changed after it was loaded, or the function was made by exec: load it again from a file",
    )


@lru_cache(maxsize=1)
def _parse(text: str) -> tuple[Mapping[tuple[str, int], _Function], tuple[str, ...]]:
    """The functions of a file by name and first line, that of the first decorator; and the file's lines.

    Those of the last file are kept: a file often holds several schema functions.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):  # not what was loaded, so the function is not in it
        tree = ast.Module([], [])
    functions = [node for node in ast.walk(tree) if isinstance(node, _Function)]
    first_lines = [min([node.lineno, *(d.lineno for d in node.decorator_list)]) for node in functions]
    found = {(node.name, line): node for node, line in zip(functions, first_lines, strict=True)}
    return found, tuple(text.split("\n"))


def _parameters(node: _Function) -> tuple[str, ...]:
    arguments = node.args
    listed = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return tuple(argument.arg for argument in listed)


def _variables(function: FunctionType) -> tuple[str, ...]:
    code = function.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _span(source: Source, lines: tuple[str, ...], node: ast.AST) -> Span:
    line = getattr(node, "lineno", 1)
    before = lines[line - 1].encode()[: getattr(node, "col_offset", 0)]
    return Span(source, line, len(before.decode(errors="replace")) + 1)
