"""The static instruction in front of every ticket, as long as a share of the prompt asks for."""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping, Sequence

from eval.tickets.data import Ticket

TEMPLATE = "\n\nTicket: {item}\nCategory:"
"""What stands behind the instruction; a label follows with a space. The line breaks stand here, and the instruction
ends in none: the recipes tokenize both apart, and only so get the ids of the whole prompt."""


def answers_of(labels: Sequence[str], *, letters: bool) -> dict[str, str]:
    """What the model is to answer for each label: its name, or a capital letter, which is one token."""
    return dict(zip(labels, string.ascii_uppercase, strict=False)) if letters else {label: label for label in labels}


def instruction(
    answers: Mapping[str, str],
    examples: Sequence[Ticket],
    count: Callable[[str], int],
    tokens: int,
) -> str:
    """At least `tokens` tokens: sentences, then the list of categories, then sorted tickets as examples.

    `answers` says what stands for each label, `count` gives a text's tokens. The instruction is cut between parts only,
    so it may be some tokens longer.
    """
    lettered = any(label != answer for label, answer in answers.items())
    wanted = "the category's letter" if lettered else "the category"
    parts = [
        "Sort the tickets of a bank's customers.\n",
        f"Read the ticket and name the one category that fits it best. Answer with {wanted} and nothing else.\n",
        "These are the categories:\n",
        *(f"- {answer}: {label}\n" if lettered else f"- {label}\n" for label, answer in answers.items()),
        *(f"\nTicket: {ticket.text}\nCategory: {answers[ticket.category]}\n" for ticket in examples),
    ]
    text = ""
    for part in parts:
        if text and count(text) >= tokens:
            break
        text += part
    return text.rstrip()
