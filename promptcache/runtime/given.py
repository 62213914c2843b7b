"""Schemas and prompts in the forms in which callers give them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path

from promptcache.pml import Node, Prompt, Schema, Text, Turn, parse_prompt, parse_schema, read_prompt, read_schema
from promptcache.pml.python import SchemaFunction

PromptLike = Prompt | Path | str
SchemaLike = Schema | SchemaFunction | Path | str
Messages = Sequence[Mapping[str, str]]


def as_schema(source: SchemaLike) -> Schema:
    """A schema from what `load_schema` takes."""
    if isinstance(source, SchemaFunction):
        return source.schema
    if isinstance(source, Schema):
        return source
    if isinstance(source, Path):
        return read_schema(source)
    return parse_schema(source) if source.lstrip().startswith("<") else read_schema(Path(source))


def as_prompt(prompt: PromptLike) -> Prompt:
    """A prompt from what `generate` takes."""
    if isinstance(prompt, Prompt):
        return prompt
    if isinstance(prompt, Path):
        return read_prompt(prompt)
    return parse_prompt(prompt) if prompt.lstrip().startswith("<prompt") else Prompt(text=prompt)


def prefix_schema(start: str | Messages) -> Schema:
    """A schema of one anonymous text, named by its content."""
    prompt = Prompt(text=start) if isinstance(start, str) else Prompt(messages=start)
    children: tuple[Node, ...] = tuple(
        Turn(turn.role, (Text(turn.text),) if turn.text else ()) for turn in prompt.turns
    )
    if isinstance(start, str) and start:
        children = (Text(start),)
    digest = blake2b(repr(children).encode("utf-8", "surrogatepass"), digest_size=10)
    return Schema(f"prefix-{digest.hexdigest()}", children)
