"""Ours beside other libraries that keep the states of prefixes: the same prompts and weights, question by question.

Transformers' recipes run in this process, every other peer in a process and an environment of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

import torch
from rich.console import Console

from eval.config import EvalConfig
from eval.engine import max_positions
from eval.floor.bench import Bench
from eval.floor.grid import Variant, numbers
from eval.floor.question import LATER_TOKENS, Side, take_turns
from eval.floor.stock_sides import FloorSide, RecipeSide
from eval.options import check_options
from eval.peers.peer_side import PeerSide
from eval.peers.registry import DEFAULT_PEERS, find_peer
from eval.progress import work_through
from eval.reports.peers import write_report
from eval.results import RunFolder
from promptcache.errors import PromptCacheError, RequestError

_OPTIONS = ("contexts", "fresh", "rounds", "peers", "gguf")
_CONTEXTS, _FRESH, _ROUNDS = (512, 2048, 6144), 32, 5
_SPARE_TOKENS = 64


def run(config: EvalConfig, results: RunFolder) -> None:
    """Measures what is missing, then writes the report."""
    check_options(config, _OPTIONS)
    contexts = numbers("contexts", config.options.get("contexts", _CONTEXTS))
    (fresh,) = numbers("fresh", [config.options.get("fresh", _FRESH)])
    (rounds,) = numbers("rounds", [config.options.get("rounds", _ROUNDS)])
    names = _names(config)
    parts = {str(context): context for context in contexts}
    if results.pending(parts):
        bench = Bench(config)
        bench.check_room(contexts, fresh)
        room = max(contexts) + fresh + LATER_TOKENS + _SPARE_TOKENS
        with _opened(bench, config, results, names, min(room, max_positions(bench.engine) or room)) as (peers, absent):
            for part in work_through(results, list(parts), "peers"):
                found = _measure(bench, config, peers, parts[part], fresh, config.repeats * rounds)
                results.add(part, {**found, "skipped": {**absent, **found["skipped"]}})
    rows = {row["part"]: row for row in results.rows()}
    write_report(results, [rows[part] for part in parts])


def _names(config: EvalConfig) -> tuple[str, ...]:
    names = config.options.get("peers", DEFAULT_PEERS)
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise RequestError(f"options: peers is {names!r}", hint="it is a list of peers' names")
    for name in names:
        find_peer(name)
    return tuple(dict.fromkeys(names))


@contextmanager
def _opened(
    bench: Bench, config: EvalConfig, results: RunFolder, names: tuple[str, ...], max_tokens: int
) -> Iterator[tuple[list[PeerSide], dict[str, str]]]:
    """The peers that could be started, ended afterwards; and for each other one the reason."""
    peers: list[PeerSide] = []
    absent: dict[str, str] = {}
    model = str(bench.engine.model.name_or_path)
    try:
        for name in names:
            log = results.path / f"{name}.log"
            with Console(file=sys.stderr).status(f"starting {name}"):
                try:
                    peers.append(PeerSide.open(name, config, model, max_tokens, torch.get_num_threads(), log))
                except PromptCacheError as fault:
                    absent[name] = fault.message
        yield peers, absent
    finally:
        for peer in peers:
            peer.close()


def _measure(
    bench: Bench, config: EvalConfig, peers: list[PeerSide], tokens: int, fresh: int, turns: int
) -> dict[str, Any]:
    """All sides of one context, which is one module for ours. A peer that fails on the way is left out of it."""
    with bench.hold(tokens, [Variant(1, "reserved")]) as held:
        (ours,), context = held.ours, held.context
        for peer in peers:
            peer.store(context.ids)
        sides: list[Side] = [
            ours,
            FloorSide(bench.engine.model, bench.stock),
            RecipeSide(bench.engine, bench.stock, context, crop=False),
            RecipeSide(bench.engine, bench.stock, context, crop=True),
            *peers,
        ]
        questions = bench.questions(held, fresh)
        for number, question in enumerate(islice(questions, config.warmup)):
            take_turns(sides, question, number, later=True)
        for side in sides:
            side.forget()
        counts = set()
        for number, question in enumerate(islice(questions, turns)):
            take_turns(sides, question, number, later=True)
            counts.add(len(question.ids))
        failed = {peer.name: peer.failure for peer in peers if peer.failure is not None}
        kept = [side for side in sides if side is not ours and side.name not in failed]
        return {
            "context": len(context.ids),
            "fresh": sorted(counts),
            "turns": turns,
            "ours": ours.figures(),
            "sides": {side.name: side.figures() for side in kept},
            "skipped": failed,
        }
