"""What the layout asks of a tokenizer. `models/tokenizer.py` implements it over a Hugging Face tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

Piece = int | str
"""A special token that the template wrote (its id), or a run of text (tokenized with special tokens off)."""


class Tokenizer(Protocol):
    """Text to ids, with nothing added that was not asked for. Thread-safe; equal input gives equal ids."""

    @property
    def fingerprint(self) -> str:
        """Identity of all that decides ids: vocabulary, merges, normalizer, added tokens, template."""

    @property
    def bos_id(self) -> int | None:
        """The token that opens every prompt (the tokenizer adds it or the template writes it); None where the model
        uses none, even if the tokenizer names one."""

    @property
    def placeholder_id(self) -> int:
        """The token that pads a parameter's slots while encoding: unknown, else pad, else end of sequence."""

    @property
    def has_template(self) -> bool:
        """Whether the tokenizer has a chat template."""

    @property
    def special_ids(self) -> frozenset[int]:
        """Ids that only the template and the engine write, never a user's text."""

    @property
    def eos_ids(self) -> frozenset[int]:
        """Tokens that end a reply as far as tokenizer and template say."""

    def encode(self, text: str, *, behind: int | None, start: bool) -> tuple[int, ...]:
        """Ids of a run of text, special tokens off: what looks like a special token stays text.

        `start`: the run opens the prompt, nothing or a BOS that the tokenizer itself would add stands before it (behind
        a BOS that the template wrote it is False). `behind`: the special token directly before it, or None when text
        is. They decide whether the tokenizer's dummy space is put in front.
        """

    def encode_all(self, texts: Sequence[str], *, behind: int | None, start: bool) -> list[tuple[int, ...]]:
        """As `encode` for each of the texts, at once."""

    def split(self, rendered: str) -> tuple[Piece, ...]:
        """Text that the template wrote, cut into special tokens and runs of text. No run is empty."""

    def render(self, turns: Sequence[tuple[str, str]], *, open_assistant: bool) -> str:
        """The conversation (role, content) as the model's template writes it, as text.

        Raises TurnError with the template's own message when it refuses.
        """

    def decode(self, ids: Sequence[int]) -> str:
        """Ids to text, special tokens dropped, no clean-up of spaces."""
