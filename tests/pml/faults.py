"""Reads faults as people see them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from promptcache.errors import PromptCacheError
from promptcache.pml import Prompt, Schema, bind, parse_prompt, parse_schema


def fault_of(action: Callable[[], object]) -> PromptCacheError:
    """The error that an action ends in."""
    with pytest.raises(PromptCacheError) as caught:
        action()
    return caught.value


def schema_fault(text: str) -> PromptCacheError:
    return fault_of(lambda: parse_schema(text))


def prompt_fault(text: str) -> PromptCacheError:
    return fault_of(lambda: parse_prompt(text))


def bind_fault(prompt: Prompt | str, schema: Schema) -> PromptCacheError:
    return fault_of(lambda: bind(parse_prompt(prompt) if isinstance(prompt, str) else prompt, schema))


def places(fault: PromptCacheError) -> list[str]:
    """`line:column` of a fault and of its others, in their order."""
    return [f"{each.line}:{each.column}" for each in (fault, *fault.others)]


def mark(text: str) -> tuple[str, str]:
    """A text without its mark ^, and the place of the character that stood behind it as `line:column`."""
    at = text.index("^")
    before = text[:at]
    return before + text[at + 1 :], f"{before.count(chr(10)) + 1}:{at - before.rfind(chr(10))}"
