"""Modular prompt cache: text that prompts share is run through the model once."""

from promptcache.engine import PromptCache
from promptcache.pml import Prompt, Schema

__all__ = ["Prompt", "PromptCache", "Schema"]
