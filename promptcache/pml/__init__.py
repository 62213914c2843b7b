"""The Prompt Markup Language: text to frozen values with source spans."""

from promptcache.pml.bind import bind
from promptcache.pml.bound import BoundImport, BoundPrompt
from promptcache.pml.nodes import (
    Import,
    Module,
    NewText,
    NewTurn,
    Node,
    Parameter,
    Role,
    Scaffold,
    Text,
    Turn,
    Union,
)
from promptcache.pml.note import Note
from promptcache.pml.prompt import Prompt
from promptcache.pml.prompt_parser import parse_prompt, read_prompt
from promptcache.pml.schema import Schema
from promptcache.pml.schema_parser import parse_schema, read_schema

__all__ = [
    "BoundImport",
    "BoundPrompt",
    "Import",
    "Module",
    "NewText",
    "NewTurn",
    "Node",
    "Note",
    "Parameter",
    "Prompt",
    "Role",
    "Scaffold",
    "Schema",
    "Text",
    "Turn",
    "Union",
    "bind",
    "parse_prompt",
    "parse_schema",
    "read_prompt",
    "read_schema",
]
