"""Who decides where tokens sit: the contract of a layout policy, and the policies by name."""

from __future__ import annotations

from typing import Protocol

from promptcache.errors import RequestError
from promptcache.layout.encodings.key import KeyContext
from promptcache.layout.layout import SchemaLayout
from promptcache.layout.plan import RequestPlan
from promptcache.layout.text.placed import PlacedText
from promptcache.layout.text.tokenizer import Tokenizer
from promptcache.pml import BoundPrompt, Schema


class LayoutPolicy(Protocol):
    """Positions for a schema and for a prompt. All calls are pure: equal input gives equal output.

    `relocates`: states are used at other positions than those they were encoded at, which not every model allows.
    """

    name: str
    relocates: bool

    def lay_out(
        self, schema: Schema, tokenizer: Tokenizer, *, encoding: str, context: KeyContext, max_positions: int | None
    ) -> SchemaLayout:
        """Raises LayoutError when the schema cannot fit the model, SchemaError and TurnError for faults in it."""

    def plan(
        self, layout: SchemaLayout, prompt: BoundPrompt, tokenizer: Tokenizer, *, max_positions: int | None
    ) -> RequestPlan:
        """Raises PromptError, LayoutError or TurnError when the prompt cannot be placed."""

    def texts(self, layout: SchemaLayout, prompt: BoundPrompt, tokenizer: Tokenizer) -> tuple[PlacedText, ...]:
        """What the ids of the prompt's plan are made from, by position. Raises as `plan`."""


def policy(name: str) -> LayoutPolicy:
    """The policy of that name. Raises RequestError for an unknown one."""
    from promptcache.layout.policies.compact import Compact
    from promptcache.layout.policies.reserved import Reserved

    known: dict[str, type[LayoutPolicy]] = {"compact": Compact, "reserved": Reserved}
    if name not in known:
        raise RequestError(f"unknown layout {name!r}", hint=f"known are: {', '.join(sorted(known))}")
    return known[name]()
