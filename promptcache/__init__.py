"""Modular prompt cache: text that prompts share is run through the model once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from promptcache.config import StoreConfig
from promptcache.pml import Prompt, Schema
from promptcache.pml.python import MaxTokens, assistant, schema, system, user

if TYPE_CHECKING:
    from promptcache.engine import PromptCache

__all__ = ["MaxTokens", "Prompt", "PromptCache", "Schema", "StoreConfig", "assistant", "schema", "system", "user"]


def __getattr__(name: str) -> Any:
    """The engine is imported when it is asked for: torch and transformers take seconds, and PML needs neither."""
    if name == "PromptCache":
        from promptcache.engine import PromptCache

        return PromptCache
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
