"""What is refused before an XML parser sees it."""

from __future__ import annotations

import re

from promptcache.errors import PMLSyntaxError
from promptcache.pml.faults import Faults
from promptcache.pml.places import Places
from promptcache.source import Source

# What XML 1.0 lets no document contain, lone surrogates included.
_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# Atomic: a long prolog without a DOCTYPE must not be tried in all its partitions.
_BEFORE_ROOT = re.compile(r"\ufeff?(?>\s+|<!--.*?-->|<\?.*?\?>)*+", re.DOTALL)
_DECLARED_ENCODING = re.compile(r"""\ufeff?<\?xml\s[^>]*?encoding\s*=\s*["']([^"'>]*)["']""")


def refuse_unreadable(source: Source) -> None:
    """Raises PMLSyntaxError for characters that XML cannot carry, an encoding other than UTF-8, and a DOCTYPE."""
    text = source.text
    faults = Faults()
    places = Places(source)
    for match in _ILLEGAL.finditer(text):
        faults.add(
            PMLSyntaxError(
                f"the character U+{ord(match[0]):04X} cannot stand in XML",
                hint="take it out, or give the text through Python: Prompt(...), Schema.from_modules",
                span=places.span(match.start()),
            )
        )
    faults.raise_first()
    declared = _DECLARED_ENCODING.match(text)
    if declared and declared[1].lower() not in ("utf-8", "utf8", "us-ascii", "ascii"):
        raise PMLSyntaxError(
            f'the document declares the encoding "{declared[1][:40]}"',
            hint="save it as UTF-8 and declare that or nothing",
            span=places.span(declared.start(1)),
        )
    before = _BEFORE_ROOT.match(text)
    if before and text.startswith("<!DOCTYPE", before.end()):
        raise PMLSyntaxError(
            "a DOCTYPE is refused: PML has no DTD and no entities beyond XML's five",
            hint="take it out; &amp; &lt; &gt; &quot; &apos; and references like &#160; work without it",
            span=places.span(before.end()),
        )
