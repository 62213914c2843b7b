"""Warnings about a schema that need no tokenizer."""

from __future__ import annotations

from collections.abc import Iterable

from promptcache.pml.nodes import Node
from promptcache.pml.note import Note


def schema_notes(children: Iterable[Node]) -> tuple[Note, ...]:
    """All warnings, in document order."""
    return ()
