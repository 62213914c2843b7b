"""Who is encoding what, so that nothing is encoded twice at once."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass

from promptcache.layout.encodings.key import SegmentKey
from promptcache.store.base import Blocks

Claim = frozenset[SegmentKey]
"""The segments of one encoding pass."""


@dataclass(frozen=True)
class Taken:
    """`ours` are passes to run, whose blocks `done` is to be given; `theirs` are run by others, to be waited for when
    ours are done: who waits holds no claim, so that two cannot wait for each other."""

    ours: frozenset[Claim]
    done: Future[Blocks]
    theirs: tuple[Future[Blocks], ...]


class Claims:
    """Encoding passes under way. A thread that wants segments of one waits for it, and uses what it made."""

    def __init__(self) -> None:
        self._under_way: dict[SegmentKey, Future[Blocks]] = {}
        self._lock = threading.Lock()

    @contextmanager
    def taken(self, passes: Iterable[Claim]) -> Iterator[Taken]:
        """The passes that are ours for the length of the block. When it fails, all who wait are told."""
        ours: set[Claim] = set()
        theirs: list[Future[Blocks]] = []
        done: Future[Blocks] = Future()
        with self._lock:
            for keys in passes:
                others = [self._under_way[key] for key in keys if key in self._under_way]
                theirs += others
                if not others:
                    ours.add(keys)
                    self._under_way.update(dict.fromkeys(keys, done))
        try:
            yield Taken(frozenset(ours), done, tuple(theirs))
        except BaseException as fault:
            if not done.done():
                done.set_exception(fault)
            raise
        finally:
            with self._lock:
                for keys in ours:
                    for key in keys:
                        del self._under_way[key]


def results(futures: Iterable[Future[Blocks]]) -> list[Blocks]:
    """Waits, and gives what was made; a run that failed made nothing, and whoever wants it tries for himself."""
    futures = set(futures)
    wait(futures)
    return [future.result() for future in futures if future.exception() is None]
