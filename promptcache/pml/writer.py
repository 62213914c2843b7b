"""A schema as PML text that parses to an equal schema."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from promptcache.errors import SchemaError
from promptcache.pml.nodes import Module, Node, Parameter, Scaffold, Text, Turn
from promptcache.source import Span

_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_IN_TEXT = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"})
# A parser turns bare line breaks and tabs in attributes into spaces.
_IN_ATTRIBUTE = _IN_TEXT | str.maketrans({'"': "&quot;", "\n": "&#10;", "\t": "&#9;"})
# libxml2's limit for one text is ten million bytes, for an attribute a little less than that as written.
_LONGEST = 9_990_000


def write_schema(name: str, children: Iterable[Node], scaffolds: Iterable[Scaffold]) -> str:
    """One line of XML per line of text: nothing is indented, since `xml:space="preserve"` makes every byte count.

    Raises SchemaError for characters that XML cannot carry and for texts longer than its parsers take.
    """
    parts = [f'<schema{_attribute("name", name, None)} xml:space="preserve">', *_nodes(children)]
    for scaffold in scaffolds:
        parts.append(f"<scaffold{_attribute('modules', ' '.join(scaffold.modules), scaffold.span)}/>")
    return "".join([*parts, "</schema>"])


def _nodes(nodes: Iterable[Node]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, Text):
            yield _carried(node.text, _IN_TEXT, node.span)
        elif isinstance(node, Parameter):
            yield _parameter(node)
        elif isinstance(node, Module):
            cache = "" if node.cache else ' cache="false"'
            yield f"<module{_attribute('name', node.name, node.span)}{cache}>"
            yield from _nodes(node.children)
            yield "</module>"
        elif isinstance(node, Turn):
            yield f"<{node.role}>"
            yield from _nodes(node.children)
            yield f"</{node.role}>"
        else:
            yield f"<union{_attribute('scaffold', node.scaffold, node.span)}>"
            yield from _nodes(node.members)
            yield "</union>"


def _parameter(node: Parameter) -> str:
    values = {"name": node.name, "length": str(node.length), "scaffold": node.scaffold, "default": node.default}
    written = "".join(_attribute(key, value, node.span) for key, value in values.items())
    return f"{' ' * node.space}<parameter{written}/>"


def _attribute(key: str, value: str | None, span: Span | None) -> str:
    return "" if value is None else f' {key}="{_carried(value, _IN_ATTRIBUTE, span)}"'


def _carried(text: str, escapes: dict[int, str], span: Span | None) -> str:
    if illegal := _ILLEGAL.search(text):
        raise SchemaError(
            f"XML cannot carry the character U+{ord(illegal[0]):04X}", hint="take it out of the text", span=span
        )
    written = text.translate(escapes)
    if len(written) > _LONGEST // 4 and len(written.encode()) > _LONGEST:
        raise SchemaError("a text of ten million bytes or more cannot be written", hint="split it", span=span)
    return written
