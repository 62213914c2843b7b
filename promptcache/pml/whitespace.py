"""PML's white-space rules, numbered as in schemas/README.md. Where xml:space="preserve" is in force, none applies.

White space is what XML calls so: space, tab, line feed, carriage return. A line break is a line feed; XML makes one of
every CR LF and every CR in a document (`&#13;` survives, and counts as white space that is no line break).

Rules 1 to 3 work on an element's runs: `runs[i]` is the text before child i, `runs[-1]` the text behind the last child,
and `kinds[i]` says what child i is. Rule 4 works on the nodes that come of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import Enum, auto

from promptcache.pml.nodes import Module, Node, Parameter, Text, Union

WHITE = " \t\n\r"


class Kind(Enum):
    """What a child is to the text around it. MODULE stands for unions and imports as well."""

    MODULE = auto()
    PARAMETER = auto()
    TURN = auto()
    SCAFFOLD = auto()


def is_blank(text: str) -> bool:
    """Nothing but white space; true for no text at all."""
    return not text.strip(WHITE)


def clean_runs(
    runs: Sequence[str], kinds: Sequence[Kind], *, drop_blank: bool = False, begins_line: bool = False
) -> list[str]:
    """An element's runs after rules 1 to 3; as many as came in.

    `drop_blank` drops every run of nothing but white space (a prompt). `begins_line` says that the first run
    begins a line, which the text of a file does and the text behind a start tag does not.
    """
    cleaned = dedent(runs, kinds, begins_line=begins_line)
    for index, run in enumerate(cleaned):
        if is_blank(run) and (drop_blank or {Kind.TURN, Kind.SCAFFOLD} & {_at(kinds, index - 1), _at(kinds, index)}):
            cleaned[index] = ""
        else:
            cleaned[index] = clean_edges(run, before_parameter=_at(kinds, index) is Kind.PARAMETER)
    return _trim(cleaned, kinds)


def dedent(runs: Sequence[str], kinds: Sequence[Kind], *, begins_line: bool = False) -> list[str]:
    """Rule 1: the white space that all lines share goes from each of them.

    Only lines that begin in these runs count: not what follows a tag on the tag's line. Blank lines do not count, and
    lose as much of the shared white space as they have. Before a parameter a line of white space is no blank line: the
    parameter stands in it. Before other tags it is.
    """
    lines = [run.split("\n") for run in runs]
    margins = []
    for index, run in enumerate(lines):
        first = 0 if begins_line and index == 0 else 1
        for number, line in enumerate(run[first:], first):
            holds_parameter = number == len(run) - 1 and _at(kinds, index) is Kind.PARAMETER
            if holds_parameter or not is_blank(line):
                margins.append(_indent(line))
    margin = _shared(margins)
    if not margin:
        return list(runs)
    for index, run in enumerate(lines):
        first = 0 if begins_line and index == 0 else 1
        run[first:] = [line[len(_shared([margin, line])) :] for line in run[first:]]
    return ["\n".join(run) for run in lines]


def clean_edges(run: str, *, before_parameter: bool = False) -> str:
    """Rule 2: white space at an edge becomes one line break if it has one, else one space.

    What is left of a line's indentation stays where the line goes on in text or in a parameter.
    """
    if is_blank(run):
        return _edge(run, keep_indent=before_parameter)
    body = run.strip(WHITE)
    start = run.index(body)
    before, behind = run[:start], run[start + len(body) :]
    return _edge(before, keep_indent=True) + body + _edge(behind, keep_indent=before_parameter)


def _at(kinds: Sequence[Kind], index: int) -> Kind | None:
    return kinds[index] if 0 <= index < len(kinds) else None


def _edge(white: str, *, keep_indent: bool) -> str:
    if "\n" in white:
        return "\n" + (white[white.rindex("\n") + 1 :] if keep_indent else "")
    return " " if white else ""


def _shared(texts: Sequence[str]) -> str:
    """The longest text that all begin with."""
    if not texts:
        return ""
    first, last = min(texts), max(texts)
    for index, character in enumerate(first):
        if last[index] != character:
            return first[:index]
    return first


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(WHITE))]


def _trim(runs: list[str], kinds: Sequence[Kind]) -> list[str]:
    """Rule 3: nothing opens or closes an element with white space. A <scaffold> is not content."""
    for index in range(len(runs)):
        runs[index] = runs[index].lstrip(WHITE)
        if runs[index] or _at(kinds, index) is not Kind.SCAFFOLD:
            break
    for index in reversed(range(len(runs))):
        runs[index] = runs[index].rstrip(WHITE)
        if runs[index] or _at(kinds, index - 1) is not Kind.SCAFFOLD:
            break
    return runs


def hand_over(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Rule 4: a line break right behind a module or union joins its end; a run of one space joins what is behind it.

    The space before a parameter is no part of this: it goes to the argument wherever it stands (`canonical`).
    """
    done: list[Node] = []
    for node in nodes:
        before = done[-1] if done else None
        if isinstance(node, Text) and isinstance(before, Module | Union) and node.text.startswith("\n"):
            done[-1] = _end_with_break(before)
            if len(node.text) > 1:
                done.append(replace(node, text=node.text[1:]))
        elif isinstance(node, Module | Union) and isinstance(before, Text) and before.text == " ":
            done[-1] = _start_with_space(node)
        else:
            done.append(node)
    return tuple(done)


def _end_with_break(node: Module | Union) -> Module | Union:
    """A line break more at the end of a module, or of each member; none behind nothing, a turn or another break."""
    if isinstance(node, Union):
        return replace(node, members=tuple(_end_with_break(member) for member in node.members))
    if not node.children:
        return node
    *others, last = node.children
    if isinstance(last, Text):
        if last.text.endswith("\n"):
            return node
        return replace(node, children=(*others, replace(last, text=last.text + "\n")))
    if isinstance(last, Module | Union):
        return replace(node, children=(*others, _end_with_break(last)))
    if isinstance(last, Parameter):
        return replace(node, children=(*node.children, Text("\n", last.span)))
    return node


def _start_with_space(node: Module | Union) -> Module | Union:
    """One space more at the start of a module, or of each member; none before nothing or a turn."""
    if isinstance(node, Union):
        return replace(node, members=tuple(_start_with_space(member) for member in node.members))
    if not node.children:
        return node
    first, *others = node.children
    if isinstance(first, Text):
        return replace(node, children=(replace(first, text=" " + first.text), *others))
    if isinstance(first, Module | Union):
        return replace(node, children=(_start_with_space(first), *others))
    if isinstance(first, Parameter):
        return replace(node, children=(Text(" ", first.span), *node.children))
    return node
