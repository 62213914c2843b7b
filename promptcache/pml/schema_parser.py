"""PML text to a schema."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from promptcache.errors import PMLSyntaxError, SchemaError
from promptcache.pml.attributes import Attributes
from promptcache.pml.canonical import canonical
from promptcache.pml.document import Element, read_document
from promptcache.pml.faults import Faults
from promptcache.pml.files import read_source, read_src
from promptcache.pml.lint import schema_notes
from promptcache.pml.names import closest, shorten
from promptcache.pml.nodes import Module, Node, Parameter, Role, Scaffold, Text, Turn, Union
from promptcache.pml.rules import check_schema
from promptcache.pml.scaffolds import path_names
from promptcache.pml.schema import Schema
from promptcache.pml.whitespace import Kind, clean_runs, hand_over, is_blank
from promptcache.source import Source, Span


def read_schema(path: Path) -> Schema:
    """The schema in a file; `src` files are looked up beside it. Raises as `parse_schema`."""
    path = Path(path)
    return parse_schema(read_source(path), folder=path.parent)


def parse_schema(source: str | Source, *, folder: Path | None = None) -> Schema:
    """The schema in a text.

    `folder` is where `src` files must lie; without it they are refused. Raises PMLSyntaxError or SchemaError for the
    first fault, with those found in the same pass in its `others`.
    """
    if isinstance(source, str):
        source = Source("<schema>", source)
    return _Reader(folder).schema(read_document(source))


_KINDS = {
    "parameter": Kind.PARAMETER,
    "param": Kind.PARAMETER,
    "system": Kind.TURN,
    "user": Kind.TURN,
    "assistant": Kind.TURN,
    "scaffold": Kind.SCAFFOLD,
}


class _Reader:
    """One pass over a document, collecting faults."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.faults = Faults()
        self.scaffolds: list[tuple[str, Span]] = []
        self.readers: dict[str, Callable[[Element], Node | None]] = {
            "module": self.module,
            "union": self.union,
            "parameter": self.parameter,
            "param": self.parameter,
            "system": lambda element: self.turn(element, "system"),
            "user": lambda element: self.turn(element, "user"),
            "assistant": lambda element: self.turn(element, "assistant"),
        }

    def schema(self, root: Element) -> Schema:
        if root.tag != "schema":
            hint = "this is a prompt" if root.tag == "prompt" else "the root element of a schema is <schema>"
            raise PMLSyntaxError(f"<{shorten(root.tag)}> is no schema", hint=hint, span=root.span)
        attributes = Attributes(root, ("name",), self.faults)
        name = attributes.required("name", "trip")
        children = canonical(self.content(root))
        meant = path_names(children)
        scaffolds = tuple(
            Scaffold(tuple(meant.get(word, word) for word in words.split()), span) for words, span in self.scaffolds
        )
        check_schema(name or "unnamed", children, scaffolds, root.span, self.faults)
        self.faults.raise_first()
        assert name is not None
        return Schema(name, children, scaffolds, root.span, schema_notes(children))

    def content(self, element: Element) -> tuple[Node, ...]:
        """An element's children, their text under the white-space rules."""
        runs = [run.text for run in element.runs]
        if not element.preserve:
            kinds = [_KINDS.get(child.tag, Kind.MODULE) for child in element.children]
            runs = clean_runs(runs, kinds)
        nodes: list[Node] = []
        for index, run in enumerate(runs):
            if run:
                nodes.append(Text(run, element.runs[index].span))
            if index < len(element.children) and (node := self.child(element, element.children[index])):
                nodes.append(node)
        return tuple(nodes) if element.preserve else hand_over(nodes)

    def child(self, parent: Element, element: Element) -> Node | None:
        if element.tag == "scaffold":
            self.scaffold(parent, element)
            return None
        reader = self.readers.get(element.tag)
        if reader:
            return reader(element)
        self.unknown(element)
        return None

    def module(self, element: Element) -> Module | None:
        attributes = Attributes(element, ("name", "cache", "src"), self.faults)
        name = attributes.required("name", "city")
        cache = attributes.flag("cache", default=True)
        children = self.file(element, attributes) if attributes.get("src") else self.content(element)
        return None if name is None else Module(name, children, cache, element.span)

    def file(self, element: Element, attributes: Attributes) -> tuple[Node, ...]:
        """The text of a `src` file as a module's only content."""
        src = attributes.get("src")
        assert src is not None
        self.expect_empty(element, "a module with src takes its text from the file: take one of them out")
        try:
            text = read_src(src.value, self.folder, src.span)
        except SchemaError as error:
            self.faults.add(error)
            return ()
        if not element.preserve:
            # As XML does with its own text, so that a checkout with other line ends gives the same tokens.
            text = text.replace("\r\n", "\n").replace("\r", "\n")
            text = clean_runs([text], [], begins_line=True)[0]
        return (Text(text, src.span),) if text else ()

    def union(self, element: Element) -> Union:
        attributes = Attributes(element, ("scaffold",), self.faults)
        for run in element.runs:
            if not is_blank(run.text):
                self.fault("text between the members of a union", "put it into a module", run.span)
        members: list[Module | Union] = []
        for child in element.children:
            node = self.child(element, child)
            if isinstance(node, Module | Union):
                members.append(node)
            elif node is not None:
                self.fault(f"<{child.tag}> stands in a union", "a union holds modules and unions", child.span)
        return Union(tuple(members), attributes.text("scaffold"), element.span)

    def parameter(self, element: Element) -> Parameter | None:
        attributes = Attributes(element, ("name", "length", "len", "scaffold", "default"), self.faults)
        name = attributes.required("name", "days")
        length = attributes.count("length", "len")
        self.expect_empty(element, "a parameter has no content: its placeholder is the attribute scaffold")
        if name is None or length is None:
            return None
        scaffold, default = attributes.text("scaffold"), attributes.text("default")
        return Parameter(name, length, scaffold, default, span=element.span)

    def turn(self, element: Element, role: Role) -> Turn:
        Attributes(element, (), self.faults)
        return Turn(role, self.content(element), element.span)

    def scaffold(self, parent: Element, element: Element) -> None:
        attributes = Attributes(element, ("modules",), self.faults)
        self.expect_empty(element, 'list the modules in the attribute: modules="one two/three"')
        if parent.tag != "schema":
            self.fault("<scaffold> stands inside another element", "put it directly under <schema>", element.span)
        modules = attributes.required("modules", "one two/three")
        if modules is not None and parent.tag == "schema":
            self.scaffolds.append((modules, element.span))

    def expect_empty(self, element: Element, hint: str) -> None:
        for run in element.runs:
            if not is_blank(run.text):
                self.fault(f"text in <{element.tag}>", hint, run.span)
        for child in element.children:
            self.fault(f"<{shorten(child.tag)}> stands in <{element.tag}>", hint, child.span)

    def unknown(self, element: Element) -> None:
        close = closest(element.tag, [*self.readers, "scaffold"])
        hint = f"did you mean <{close}>?" if close else f'a module is written <module name="{shorten(element.tag)}">'
        message = f"PML has no element <{shorten(element.tag)}>"
        if element.tag in ("schema", "prompt"):
            message, hint = f"<{element.tag}> stands inside another element", "it is a root element"
        self.faults.add(PMLSyntaxError(message, hint=hint, span=element.span))
        self.content(element)  # its faults are faults too

    def fault(self, message: str, hint: str, span: Span) -> None:
        self.faults.add(SchemaError(message, hint=hint, span=span))
