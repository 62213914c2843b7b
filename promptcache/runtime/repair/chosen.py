"""The repair policy that a request runs with."""

from __future__ import annotations

from promptcache.errors import PromptError, RequestError
from promptcache.pml import Prompt
from promptcache.runtime.repair.base import RepairPolicy, repair_policy


def chosen_policy(prompt: Prompt, given: str | None, otherwise: str) -> RepairPolicy:
    """The call's policy, else the prompt's, else the engine's. Raises RequestError for an unknown one, PromptError at
    the prompt's place for its own."""
    if given is None and prompt.repair is not None:
        try:
            return repair_policy(prompt.repair)
        except RequestError as error:
            raise PromptError(error.message, hint=error.hint, span=prompt.span) from None
    return repair_policy(otherwise if given is None else given)
