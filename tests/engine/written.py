"""Schemas, prompts and ghosts as the tests of encodings write them."""

from __future__ import annotations

from tests.oracle import Token, tokens


def schema(body: str) -> str:
    """A schema named s."""
    return f'<schema name="s">{body}</schema>'


def prompt(body: str) -> str:
    """A prompt to it."""
    return f'<prompt schema="s">{body}</prompt>'


def ghosts(text: bytes, start: int, group: str) -> list[Token]:
    """Tokens that a pass saw and the request does not have there."""
    return tokens(text, start, group, ghost=True)
