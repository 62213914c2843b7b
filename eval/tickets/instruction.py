"""The static instruction in front of every ticket, as long as a share of the prompt asks for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from eval.tickets.data import Ticket

TEMPLATE = "\n\nTicket: {item}\nCategory:"
"""What stands behind the instruction; a label follows with a space. The line breaks stand here, and the instruction
ends in none: the recipes tokenize both apart, and only so get the ids of the whole prompt."""


def instruction(
    labels: Sequence[str],
    examples: Sequence[Ticket],
    count: Callable[[str], int],
    tokens: int,
) -> str:
    """At least `tokens` tokens: sentences, then the list of categories, then sorted tickets as examples.

    `count` gives a text's tokens. The instruction is cut between parts only, so it may be some tokens longer.
    """
    parts = [
        "Sort the tickets of a bank's customers.\n",
        "Read the ticket and name the one category that fits it best. Answer with the category and nothing else.\n",
        "These are the categories:\n",
        *(f"- {label}\n" for label in labels),
        *(f"\nTicket: {ticket.text}\nCategory: {ticket.category}\n" for ticket in examples),
    ]
    text = ""
    for part in parts:
        if text and count(text) >= tokens:
            break
        text += part
    return text.rstrip()
