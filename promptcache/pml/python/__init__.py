"""Python functions as schemas."""

from promptcache.pml.python.arguments import MaxTokens
from promptcache.pml.python.function import SchemaFunction, schema
from promptcache.pml.python.turns import assistant, system, user

__all__ = ["MaxTokens", "SchemaFunction", "assistant", "schema", "system", "user"]
