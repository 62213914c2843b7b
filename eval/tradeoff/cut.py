"""Contexts cut to some of their passages, the one that holds the answer among them."""

from __future__ import annotations

from collections.abc import Callable

from eval.longbench.case import most_tokens
from eval.longbench.parts import PromptParts
from eval.longbench.split import split_context
from eval.longbench.tasks import Task
from eval.longbench.truncate import Encode
from promptcache.errors import RequestError

_SHARES = 3  # no passage takes more than this part of the room, so that there are several


def cut(task: Task, parts: PromptParts, answers: tuple[str, ...], room: int, encode: Encode) -> PromptParts:
    """The parts with passages left out and long ones shortened, so that all of it takes at most `room` tokens.

    Kept are the first passage with an answer in it (for retrieval: the paragraph that the answer names) and, in their
    order, as many others as fit. A shortened passage ends in a line break, so that the next begins a line. Raises
    RequestError where instruction and question alone are too long.
    """
    left = room - most_tokens(task, PromptParts(parts.before, "", parts.after), encode)
    if left < 1:
        raise RequestError(
            f"{task.name}: instruction and question leave no room in {room} tokens", hint="more --lengths"
        )
    pieces = split_context(task.name, parts.context)
    gold = gold_piece(task, pieces, answers)
    most = max(left // _SHARES, 1)
    kept: dict[int, str] = {}
    for number in sorted(range(len(pieces)), key=lambda n: (n != gold, n)):
        text = pieces[number]
        if len(encode(text)) > most:
            text = _shortened(text, most, answers if number == gold else (), encode)
        if (tokens := len(encode(text))) <= left and text.strip():
            kept[number], left = text, left - tokens
    while True:
        made = PromptParts(parts.before, "".join(kept[number] for number in sorted(kept)), parts.after)
        if most_tokens(task, made, encode) <= room or len(kept) <= 1:
            return made
        del kept[max(number for number in kept if number != gold)]


def gold_piece(task: Task, pieces: tuple[str, ...], answers: tuple[str, ...]) -> int | None:
    """The number of the first piece that holds an answer, None where none does."""
    for number, piece in enumerate(pieces):
        for answer in answers:
            named = task.metric == "retrieval" and piece.startswith(f"{answer}:")
            if named or (task.metric == "f1" and answer.strip() and answer.lower() in piece.lower()):
                return number
    return None


def _shortened(text: str, tokens: int, answers: tuple[str, ...], encode: Encode) -> str:
    """The beginning; where an answer stands behind it, the first line and what ends with the answer's line."""

    def fits(candidate: str) -> bool:
        return len(encode(candidate)) <= tokens

    head = _longest(len(text), lambda length: fits(text[:length] + "\n"))
    found = min((at for answer in answers if (at := text.lower().find(answer.lower())) >= 0), default=0)
    end = text.find("\n", found) if found > head else -1
    if found <= head:
        return text[:head].rstrip() + "\n"
    first = text[: text.find("\n") + 1]
    tail = text[: end if end >= 0 else len(text)].rstrip() + "\n"
    length = _longest(len(tail) - len(first), lambda length: fits(first + tail[len(tail) - length :]))
    return first + tail[len(tail) - length :]


def _longest(most: int, fits: Callable[[int], bool]) -> int:
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low
