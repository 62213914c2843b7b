"""The answers to many prompts at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from promptcache.errors import BatchError, PromptCacheError, RequestError
from promptcache.models.adapter import ModelAdapter
from promptcache.runtime.reply.completion import Completion
from promptcache.runtime.reply.generation import Generation
from promptcache.runtime.reply.options import Sampling, SamplingOptions
from promptcache.runtime.reply.replies import Replies
from promptcache.runtime.reply.reply import Reply

T = TypeVar("T")
Item = TypeVar("Item")


def numbered(items: Iterable[Item], make: Callable[[Item], T]) -> Iterator[T]:
    """What is made of each item. An error says which item it is about. Raises RequestError for a text, which would be
    taken for its characters."""
    if isinstance(items, str):
        raise RequestError("a batch is a list, and this is one text", hint="put it into a list")
    for number, item in enumerate(items):
        try:
            yield make(item)
        except PromptCacheError as error:
            error.message = f"number {number} of the batch, from 0: {error.message}"
            raise


def samplings(options: SamplingOptions, own: Sequence[SamplingOptions] | None, count: int) -> list[Sampling]:
    """Checked options for so many prompts: the same for all, or with its own in their place for each. Raises
    RequestError, TypeError."""
    if own is None:
        return [Sampling.of(options)] * count
    if len(own) != count:
        raise RequestError(f"there are {count} prompts and options for {len(own)}", hint="give options for each")
    return list(numbered(own, lambda each: Sampling.of({**options, **each})))


def check_size(name: str, size: int) -> None:
    """Raises RequestError for a batch of less than one."""
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise RequestError(f"{name}={size!r} is out of range", hint="it must be 1 or more")


def answer_all(adapter: ModelAdapter, replies: Sequence[Reply], max_batch: int) -> list[Completion]:
    """All completions, in the order of the replies; up to `max_batch` run at once. On paths that cannot batch they run
    one after the other, with the same result.

    Raises BatchError for those that failed, when all others are at their end; RequestError for no place at all.
    """
    check_size("max_batch", max_batch)
    if all(reply.attention == "segments" for reply in replies):
        with Replies(adapter, max_batch) as running:
            for reply in replies:
                running.add(reply)
            while running:
                running.step()
    else:
        for reply in replies:
            try:
                Generation(reply).finish()
            except Exception as fault:
                reply.fault = fault
    if faults := {number: reply.fault for number, reply in enumerate(replies) if reply.fault is not None}:
        raise BatchError(faults, [reply.completion for reply in replies])
    return [reply.completion for reply in replies if reply.completion is not None]
