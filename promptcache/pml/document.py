"""Strict XML to elements with places. lxml is the only judge of what is well-formed, and the only source of text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lxml import etree

from promptcache.errors import PMLSyntaxError
from promptcache.pml.faults import Faults
from promptcache.pml.places import Places, Tag, scan
from promptcache.pml.prolog import refuse_unreadable
from promptcache.pml.wellformed import syntax_error
from promptcache.source import Source, Span

MAX_DEPTH = 100
"""Elements may nest this deep. libxml2 stops at 256; ours leaves room for the stages that walk the tree."""

# lxml reads an element's attributes in quadratic time.
_MOST_ATTRIBUTES = 1000
_SPACE = "xml:space"


@dataclass(frozen=True)
class Attribute:
    """An attribute's value, after XML's own normalization of line breaks and tabs to spaces."""

    value: str
    span: Span


@dataclass(frozen=True)
class Run:
    """The text between two tags, comments and processing instructions gone; empty where tags touch.

    `span` is at its first character that is not white space.
    """

    text: str
    span: Span


@dataclass(frozen=True)
class Element:
    """An element as written: `runs[i]` is the text before `children[i]`, `runs[-1]` the text behind the last child.

    `preserve` says that `xml:space="preserve"` is in force. `attributes` lacks xml:space.
    """

    tag: str
    attributes: dict[str, Attribute]
    runs: tuple[Run, ...]
    children: tuple[Element, ...]
    preserve: bool
    span: Span


def read_document(source: Source) -> Element:
    """The root element of a document. Raises PMLSyntaxError, further faults in its `others`."""
    refuse_unreadable(source)
    parser = etree.XMLParser(
        encoding="utf-8",  # a text is decoded already, whatever it declares
        resolve_entities=False,
        load_dtd=False,
        no_network=True,
        huge_tree=False,
        recover=False,
        remove_comments=True,
        remove_pis=True,
    )
    try:
        root = etree.fromstring(source.text.encode(), parser)
    except etree.XMLSyntaxError as error:
        raise syntax_error(source, error, list(parser.error_log)) from None
    return _Builder(source).document(root)


class _Builder:
    """Pairs lxml's elements with the tags of our own scan: both are in document order."""

    def __init__(self, source: Source) -> None:
        self.places = Places(source)
        self.tags = scan(source.text)
        self.next_tag: Iterator[Tag] = iter(self.tags)
        self.faults = Faults()

    def document(self, root: etree._Element) -> Element:
        for tag in self.tags:
            if tag.depth > MAX_DEPTH:
                self.fault(f"<{tag.name}> is nested deeper than {MAX_DEPTH} elements", "nest fewer modules", tag.at)
                break
            if len(tag.attributes) > _MOST_ATTRIBUTES:
                self.fault(f"<{tag.name}> has more than {_MOST_ATTRIBUTES} attributes", "split the module", tag.at)
                break
        self.faults.raise_first()
        element = self.element(root, next(self.next_tag), preserve=False)
        self.faults.raise_first()
        return element

    def element(self, node: etree._Element, tag: Tag, *, preserve: bool) -> Element:
        attributes = self.attributes(node, tag)
        if space := attributes.pop(_SPACE, None):
            preserve = space.value == "preserve"
        runs = [Run(node.text or "", self.places.span(tag.text))]
        children = []
        for child in node:
            child_tag = next(self.next_tag)
            children.append(self.element(child, child_tag, preserve=preserve))
            runs.append(Run(child.tail or "", self.places.span(child_tag.tail)))
        return Element(tag.name, attributes, tuple(runs), tuple(children), preserve, self.places.span(tag.at))

    def attributes(self, node: etree._Element, tag: Tag) -> dict[str, Attribute]:
        values = iter(node.attrib.values())
        attributes = {}
        for name, at in tag.attributes:
            if name == "xmlns" or name.startswith("xmlns:"):
                self.fault(f"{name} declares a namespace", "PML has no namespaces: take it out", at)
                continue
            value = str(next(values))
            if name == _SPACE:
                if value not in ("default", "preserve"):
                    self.fault(f'xml:space is "{value[:60]}"', 'it is "preserve" or "default"', at)
            elif name.startswith("xml:"):
                self.fault(f"<{tag.name}> has no attribute {name}", "of XML's own attributes PML knows xml:space", at)
                continue
            attributes[name] = Attribute(value, self.places.span(at))
        return attributes

    def fault(self, message: str, hint: str, at: int) -> None:
        self.faults.add(PMLSyntaxError(message, hint=hint, span=self.places.span(at)))
