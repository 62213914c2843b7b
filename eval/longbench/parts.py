"""A record's prompt in three exact pieces."""

from __future__ import annotations

from dataclasses import dataclass

from eval.longbench.record import Record
from eval.longbench.tasks import Task


@dataclass(frozen=True)
class PromptParts:
    """`before` ends where the context begins, `after` begins where it ends and holds the question."""

    before: str
    context: str
    after: str

    @property
    def text(self) -> str:
        """The whole prompt, without the chat template's markers."""
        return self.before + self.context + self.after

    def without(self, start: int, end: int) -> PromptParts:
        """The same with characters `start` up to `end` of `text` left out, from whichever part they stand in."""
        pieces, offset = [], 0
        for part in (self.before, self.context, self.after):
            low, high = (min(max(place - offset, 0), len(part)) for place in (start, end))
            pieces.append(part[:low] + part[high:])
            offset += len(part)
        return PromptParts(*pieces)


def prompt_parts(task: Task, record: Record) -> PromptParts:
    """The record in LongBench's template; `text` is what LongBench renders, to the byte."""
    before, after = task.template.split("{context}")
    return PromptParts(before, record.context, after.replace("{input}", record.input))
