"""All places where a text is not well-formed XML."""

from __future__ import annotations

from lxml import etree

from promptcache.errors import PMLSyntaxError
from promptcache.pml.names import shorten
from promptcache.pml.places import Places
from promptcache.source import Source, Span

_MOST_FAULTS = 50

_ESCAPE = "write &lt; for < and &amp; for &, or put the text into <![CDATA[ ]]>"
_HINTS = {
    "ERR_NAME_REQUIRED": _ESCAPE,
    "ERR_LT_IN_ATTRIBUTE": "write &lt; for <",
    "ERR_ENTITYREF_SEMICOL_MISSING": _ESCAPE,
    "ERR_UNDECLARED_ENTITY": "XML knows &amp; &lt; &gt; &quot; &apos; and references like &#160;; write &amp; for &",
    "ERR_MISPLACED_CDATA_END": "write ]]&gt; for ]]>",
    "ERR_TAG_NAME_MISMATCH": "close elements in the reverse order of opening",
    "ERR_TAG_NOT_FINISHED": "close every element",
    "ERR_GT_REQUIRED": "end the tag with >",
    "ERR_ATTRIBUTE_NOT_STARTED": "put the value of an attribute into quotes",
    "ERR_ATTRIBUTE_NOT_FINISHED": "close the quotes of the attribute's value",
    "ERR_ATTRIBUTE_WITHOUT_VALUE": 'give the attribute a value: name="value"',
    "ERR_ATTRIBUTE_REDEFINED": "give each attribute once",
    "ERR_DOCUMENT_END": "a document has one root element, and nothing but comments behind it",
    "ERR_DOCUMENT_EMPTY": "a document begins with its root element: <schema> or <prompt>",
    "ERR_RESOURCE_LIMIT": "the document is larger than an XML parser should accept; cut it, or use src",
    "ERR_HYPHEN_IN_COMMENT": "a comment cannot contain --",
    "NS_ERR_UNDEFINED_NAMESPACE": "PML has no namespaces: take the prefix out",
    "NS_ERR_QNAME": "PML has no namespaces: take the colon out",
}
_MESSAGES = {
    "ERR_NAME_REQUIRED": "a < or & that begins no tag, and no reference",
}


def syntax_error(source: Source, error: etree.XMLSyntaxError, log: list[etree._LogEntry]) -> PMLSyntaxError:
    """Why the strict parser stopped: the first fault of its `log`, those behind it in the fault's `others`.

    libxml2 goes on reading after a fault, for the sake of its log alone. Lines and columns count characters from 1; a
    fault is where the parser stood when it saw it, which is behind a bare < or &.
    """
    places = Places(source)
    faults: dict[tuple[int, int], PMLSyntaxError] = {}
    for entry in log[:_MOST_FAULTS]:
        span = places.nearest(entry.line, entry.column)
        faults.setdefault((span.line, span.column), _fault(entry.message, entry.type_name, span))
    if not faults:
        return _fault(error.msg or "the parser stopped", "", places.span(0))
    fault, *others = (faults[at] for at in sorted(faults))
    fault.others = tuple(others)
    return fault


def _fault(message: str, code: str, span: Span) -> PMLSyntaxError:
    text = _MESSAGES.get(code) or message.strip().removesuffix(", use XML_PARSE_HUGE option")
    return PMLSyntaxError(f"not well-formed XML: {shorten(text, 200)}", hint=_HINTS.get(code), span=span)
