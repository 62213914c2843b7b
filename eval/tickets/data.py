"""Tickets to classify: a CSV with the columns text and category."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path

from promptcache.errors import RequestError


@dataclass(frozen=True)
class Ticket:
    """A customer's text and the category that people gave it (words, no underscores)."""

    text: str
    category: str


def read_tickets(file: Path) -> list[Ticket]:
    """All tickets of a file. Raises RequestError that names the file and what is wrong with it."""
    try:
        rows = list(csv.DictReader(io.StringIO(file.read_text(encoding="utf-8"))))
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError(f"{file} cannot be read: {error}", hint="--data takes a CSV with text,category") from error
    if not rows or not {"text", "category"} <= rows[0].keys():
        raise RequestError(f"{file} has no columns text and category", hint="its first line must name them")
    return [Ticket(row["text"].strip(), row["category"].replace("_", " ").strip()) for row in rows]


def spread(tickets: list[Ticket], number: int | None) -> list[Ticket]:
    """So many of them from all over the list, which may be sorted by category; all where there are not more."""
    if number is None or number >= len(tickets):
        return tickets
    return [tickets[place * len(tickets) // number] for place in range(number)]
