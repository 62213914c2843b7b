"""Tickets behind one static instruction: re-encoding, transformers' recipes, and ours, with one label scorer.

Every row scores the same labels behind the same tickets in one pass an item. The rows work on the same group of
tickets in turn, single-item rows item by item in rotating order. `floor` runs the ticket and the labels with no
static part; its scores mean nothing.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from eval.config import EvalConfig
from eval.engine import IN_MEMORY
from eval.plots import line_plot
from eval.progress import work_through
from eval.results import RunFolder
from eval.table import markdown_table
from eval.tickets.data import Ticket, read_tickets
from eval.tickets.instruction import TEMPLATE, instruction
from eval.tickets.recipes import CacheRecipe, Floor, FullEncoding, LabelScorer
from promptcache import PromptCache
from promptcache.errors import RequestError
from promptcache.runtime.scoring import Score

Row = Callable[[Sequence[str]], list[list[Score]]]

_GROUP = 32
_MAIN_SHARE = 0.87
_SHARES = (0.5, 0.7, 0.87, 0.95, 0.99)
_PUBLISHED = "KDnuggets, Qwen2.5-0.5B, M2 laptop: 308.1 -> 133.5 ms a ticket, 57 % less"
_SINGLE = ("full", "deepcopy", "crop", "ours", "floor")
_BATCHES = {"full, batches of 8": 8, "full, batches of 32": 32}


def run(config: EvalConfig, results: RunFolder) -> None:
    """All tickets at the main share, then some at each share of the curve."""
    if config.data is None:
        raise RequestError("there are no tickets", hint="--data FILE.csv, with the columns text and category")
    tickets = read_tickets(Path(config.data))[: config.limit]
    labels = sorted({ticket.category for ticket in tickets})
    groups = [tickets[at : at + _GROUP] for at in range(0, len(tickets), _GROUP)]
    main = [f"main/{number}" for number in range(len(groups))]
    curve = [f"curve/{share}" for share in _SHARES]
    bench: _Bench | None = None
    for part in work_through(results, [*main, *curve], "tickets"):
        kind, name = part.split("/")
        bench = bench or _Bench(config, tickets, labels)
        if kind == "main":
            bench.set_share(_MAIN_SHARE)
            results.add(part, bench.measure(groups[int(name)], [*_SINGLE, *_BATCHES]))
        else:
            bench.set_share(float(name))
            results.add(part, bench.measure(tickets[:: max(1, len(tickets) // 10)][:10], _SINGLE))
    _report(results, labels, [ticket.category for ticket in tickets])


class _Bench:
    """The model, and the rows for one static instruction at a time."""

    def __init__(self, config: EvalConfig, tickets: list[Ticket], labels: list[str]) -> None:
        self.engine = PromptCache.from_pretrained(
            config.model, dtype=config.dtype, device=config.device, store=IN_MEMORY
        )
        self.tokenizer = self.engine.tokenizer
        self.labels = labels
        # Examples come from the end of the file and repeat where a share needs more than there are.
        self.examples = [ticket for _ in range(20) for ticket in reversed(tickets)]
        lengths = [self.count(TEMPLATE.replace("{item}", ticket.text)) for ticket in tickets]
        self.item_tokens = statistics.mean(lengths)
        self.share: float | None = None

    def count(self, text: str) -> int:
        return len(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def set_share(self, share: float) -> None:
        """Prepares all rows for an instruction of that share, and warms them up."""
        if share == self.share:
            return
        self.share = share
        static = instruction(self.labels, self.examples, self.count, round(share / (1 - share) * self.item_tokens))
        ids = [self.tokenizer(f" {label}", add_special_tokens=False)["input_ids"] for label in self.labels]
        scorer = LabelScorer(self.engine.model, ids, self.tokenizer.pad_token_id)
        prefix = self.engine.prefix(static)
        continuations = [f" {label}" for label in self.labels]
        self.static_tokens = prefix.num_tokens
        full = FullEncoding(scorer, self.tokenizer, static)
        self.rows: dict[str, Row] = {
            "full": full,
            "deepcopy": CacheRecipe(scorer, self.tokenizer, static, crop=False),
            "crop": CacheRecipe(scorer, self.tokenizer, static, crop=True),
            "ours": lambda suffixes: [prefix.score(suffix, continuations) for suffix in suffixes],
            "floor": Floor(scorer, self.tokenizer),
            **dict.fromkeys(_BATCHES, full),
        }
        for row in self.rows.values():
            for _ in range(2):
                row([TEMPLATE.replace("{item}", "hello, is anybody there?")])

    def measure(self, tickets: Sequence[Ticket], rows: Sequence[str]) -> dict[str, Any]:
        """Milliseconds an item, tokens computed and scores of each row on these tickets."""
        suffixes = [TEMPLATE.replace("{item}", ticket.text) for ticket in tickets]
        found: dict[str, dict[str, Any]] = {row: {"ms": [], "tokens": 0, "scores": []} for row in rows}
        single = [row for row in rows if row not in _BATCHES]
        for number, suffix in enumerate(suffixes):
            for turn in range(len(single)):
                self._run(found, single[(number + turn) % len(single)], [suffix])
        for row in rows:
            if row in _BATCHES:
                for at in range(0, len(suffixes), _BATCHES[row]):
                    self._run(found, row, suffixes[at : at + _BATCHES[row]])
        return {"rows": found, "static_tokens": self.static_tokens, "item_tokens": self.item_tokens}

    def _run(self, found: dict[str, dict[str, Any]], row: str, suffixes: Sequence[str]) -> None:
        tokens = 0

        def count(module: Any, args: Any, kwargs: Any) -> None:
            nonlocal tokens
            tokens += kwargs["input_ids"].numel()

        hook = self.engine.model.register_forward_pre_hook(count, with_kwargs=True)
        start = time.perf_counter()
        scores = self.rows[row](suffixes)
        elapsed = (time.perf_counter() - start) * 1000
        hook.remove()
        found[row]["ms"] += [elapsed / len(suffixes)] * len(suffixes)
        found[row]["tokens"] += tokens
        found[row]["scores"] += [[round(score.mean, 6) for score in item] for item in scores]


def _report(results: RunFolder, labels: list[str], truth: list[str]) -> None:
    rows = {row["part"]: row for row in results.rows()}
    main = [rows[part] for part in rows if part.startswith("main/")]
    merged: dict[str, dict[str, Any]] = {}
    for name in main[0]["rows"]:
        merged[name] = {
            "ms": [ms for part in main for ms in part["rows"][name]["ms"]],
            "tokens": sum(part["rows"][name]["tokens"] for part in main),
            "scores": np.array([scores for part in main for scores in part["rows"][name]["scores"]]),
        }
    full = merged["full"]
    table = []
    for name, row in merged.items():
        choice = _decide(row["scores"])
        meant = name != "floor"
        table.append(
            [
                name,
                statistics.median(row["ms"]),
                float(np.percentile(row["ms"], 95)),
                row["tokens"] / len(truth),
                100 * (1 - statistics.median(row["ms"]) / statistics.median(full["ms"])),
                100 * float(np.mean([labels[c] == t for c, t in zip(choice, truth, strict=True)])) if meant else None,
                len(set(choice.tolist())) if meant else None,
                f"{float(np.abs(row['scores'] - full['scores']).max()):.1e}" if meant else None,
            ]
        )
    ours = merged["ours"]["ms"]
    ratios = [
        ["ours / crop recipe", _paired(ours, merged["crop"]["ms"])],
        ["ours / floor", _paired(ours, merged["floor"]["ms"])],
        ["full / ours", _paired(full["ms"], ours)],
    ]
    curve = []
    for share in _SHARES:
        part = rows[f"curve/{share}"]
        times = {name: statistics.median(row["ms"]) for name, row in part["rows"].items()}
        static = part["static_tokens"]
        curve.append(
            [
                100 * static / (static + part["item_tokens"]),
                static,
                *(times[name] for name in _SINGLE),
                100 * (1 - times["ours"] / times["full"]),
            ]
        )
    static, item = main[0]["static_tokens"], main[0]["item_tokens"]
    results.write_report(
        f"# Tickets\n\n{len(truth)} tickets, {len(labels)} labels; {static} static tokens and {item:.1f} an item "
        f"({100 * static / (static + item):.0f} % static). Labels are scored in the item's own pass by all rows: "
        f"log-probability per token, less the label's mean over all tickets. Times are milliseconds an item.\n\n"
        + markdown_table(
            [
                "row",
                "median",
                "p95",
                "tokens an item",
                "% below full",
                "accuracy %",
                "labels predicted",
                "largest score difference",
            ],
            table,
        )
        + f"\nPublished for comparison: {_PUBLISHED}.\n\n"
        + markdown_table(["ratio (median of paired items)", "value"], ratios)
        + "\n## The gain grows with the static share\n\n"
        + markdown_table(["static %", "static tokens", *_SINGLE, "% below full"], curve)
    )
    line_plot(
        results.path / "curve.png",
        {name: [(row[1], row[2 + number]) for row in curve] for number, name in enumerate(_SINGLE)},
        title="Time an item against the static part",
        xlabel="static tokens",
        ylabel="ms an item",
    )


def _decide(scores: np.ndarray) -> np.ndarray:
    """Each ticket's label, for scores [tickets, labels]: the highest above the label's own mean over all tickets.

    A small model prefers the same few labels behind any ticket; taking each label's mean away leaves what the ticket
    says (batch calibration, Zhou et al., ICLR 2024). All rows decide so.
    """
    chosen: np.ndarray = (scores - scores.mean(0)).argmax(1)
    return chosen


def _paired(top: Sequence[float], bottom: Sequence[float]) -> float:
    return statistics.median(a / b for a, b in zip(top, bottom, strict=True))
