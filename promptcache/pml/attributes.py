"""Reads an element's attributes, with a fault for each one that is unknown, missing or not of its kind."""

from __future__ import annotations

import re

from promptcache.errors import SchemaError
from promptcache.pml.document import Attribute, Element
from promptcache.pml.faults import Faults
from promptcache.pml.names import shorten, suggest

_WHOLE_NUMBER = re.compile(r"[0-9]{1,9}")


class Attributes:
    """The attributes of one schema element, of which `known` are allowed."""

    def __init__(self, element: Element, known: tuple[str, ...], faults: Faults) -> None:
        self._element = element
        self._faults = faults
        for name, attribute in element.attributes.items():
            if name not in known:
                message = f'<{element.tag}> has no attribute "{shorten(name)}"'
                self._fault(message, suggest(name, known), attribute)

    def get(self, name: str) -> Attribute | None:
        """The attribute, or None."""
        return self._element.attributes.get(name)

    def text(self, name: str) -> str | None:
        """The attribute's value, or None."""
        attribute = self.get(name)
        return attribute.value if attribute else None

    def required(self, name: str, example: str) -> str | None:
        """The attribute's value; None, and a fault, when it is missing."""
        value = self.text(name)
        if value is None:
            self._fault(f'<{self._element.tag}> has no "{name}"', f'write {name}="{example}"', None)
        return value

    def flag(self, name: str, *, default: bool) -> bool:
        """`true` or `false`."""
        attribute = self.get(name)
        if attribute and attribute.value not in ("true", "false"):
            self._fault(f'{name}="{shorten(attribute.value)}" is neither true nor false', None, attribute)
        return attribute.value == "true" if attribute else default

    def count(self, *spellings: str) -> int | None:
        """A whole number from 1, under the one spelling that is given; None, and a fault, without one."""
        given = [name for name in spellings if self.get(name)]
        if len(given) != 1:
            found = " and ".join(f'"{name}"' for name in given) if given else f'no "{spellings[0]}"'
            self._fault(f"<{self._element.tag}> has {found}", f'write {spellings[0]}="10" (tokens)', None)
            return None
        attribute = self._element.attributes[given[0]]
        if not _WHOLE_NUMBER.fullmatch(attribute.value) or int(attribute.value) < 1:
            message = f'{given[0]}="{shorten(attribute.value)}" is not a number of tokens'
            self._fault(message, "write a whole number from 1, in digits", attribute)
            return None
        return int(attribute.value)

    def _fault(self, message: str, hint: str | None, at: Attribute | None) -> None:
        span = at.span if at else self._element.span
        self._faults.add(SchemaError(message, hint=hint, span=span))
