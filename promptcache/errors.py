"""Every error that a user's input can cause, in one tree.

PromptCacheError
├── PMLError                  a fault in a schema or a prompt
│   ├── PMLSyntaxError        not well-formed XML, or XML that PML refuses
│   ├── SchemaError           well-formed, but not a schema by PML's rules
│   └── PromptError           a prompt that its schema does not allow
├── LayoutError               tokens that find no position
├── TurnError                 turns that the model's chat template refuses or changes
├── ModelError
│   ├── ModelNotFoundError    nothing could be loaded under that name
│   └── UnsupportedModelError a model whose states cannot be reused rightly
├── RequestError              an argument of a call that cannot be served
├── BatchError                replies of a batch that failed while others did not
└── StoreError                a store that cannot be used
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from promptcache.source import Span


class PromptCacheError(Exception):
    """The root of the tree: what is wrong, where, and what to do about it.

    `others` holds further faults of the same text, found in the same pass; `check` prints them all.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        span: Span | None = None,
        others: tuple[PromptCacheError, ...] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.span = span
        self.others = others

    @property
    def file(self) -> str | None:
        """The name of the faulty source."""
        return self.span.source.name if self.span else None

    @property
    def line(self) -> int | None:
        """The line of the fault, from 1."""
        return self.span.line if self.span else None

    @property
    def column(self) -> int | None:
        """The column of the fault, from 1."""
        return self.span.column if self.span else None

    def summary(self) -> str:
        """`file:line:col: message` on one line."""
        return f"{self.span}: {self.message}" if self.span else self.message

    def __str__(self) -> str:
        parts = [self.summary()]
        if self.span:
            parts += _excerpt(self.span)
        if self.hint:
            parts.append(f"hint: {self.hint}")
        return "\n".join(parts)


def _excerpt(span: Span) -> list[str]:
    """The offending line with a caret below it: printable, and only what lies around the fault if it is long."""
    line = span.source.line(span.line)
    start = max(span.column - 100, 0) if len(line) > 160 else 0
    shown = "".join(c if c == "\t" or c.isprintable() else "\ufffd" for c in line[start : start + 160])
    indent = "".join("\t" if c == "\t" else " " for c in shown[: span.column - 1 - start])
    return [f"  {shown}", f"  {indent}^"] if shown else []


class PMLError(PromptCacheError):
    """A fault in a schema or a prompt."""


class PMLSyntaxError(PMLError):
    """Not well-formed XML, or XML that PML refuses (a DOCTYPE, a namespace, an unknown element)."""


class SchemaError(PMLError):
    """Well-formed, but not a schema by PML's rules."""


class PromptError(PMLError):
    """A prompt that its schema does not allow."""


class LayoutError(PromptCacheError):
    """Tokens that find no position."""


class TurnError(PromptCacheError):
    """Turns that the model's chat template refuses or changes."""


class ModelError(PromptCacheError):
    """A model that cannot be used."""


class ModelNotFoundError(ModelError):
    """Nothing could be loaded under that name; the message lists what was tried."""


class UnsupportedModelError(ModelError):
    """A model whose states cannot be reused rightly; the message says why."""


class RequestError(PromptCacheError, ValueError):
    """An argument of a call that cannot be served."""


class BatchError(PromptCacheError):
    """Replies of a batch that failed while others did not: `faults` by number, from 0; `completions` of all, None for
    those that failed."""

    def __init__(self, faults: Mapping[int, Exception], completions: Sequence[Any]) -> None:
        number, first = next(iter(faults.items()))
        what = first.summary() if isinstance(first, PromptCacheError) else f"{type(first).__name__}: {first}"
        super().__init__(
            f"{len(faults)} of {len(completions)} replies failed; the first is number {number}, from 0: {what}",
            hint="the other replies are in `completions` of this error",
        )
        self.faults = dict(faults)
        self.completions = list(completions)


class StoreError(PromptCacheError):
    """A store that cannot be used."""
