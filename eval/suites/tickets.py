"""Tickets behind one static instruction: re-encoding, transformers' recipes, and ours, with one label scorer.

Every row scores the same labels behind the same tickets, in one pass an item or a batch. The rows work on the same
group of tickets in turn, single-item rows item by item in rotating order. `floor` runs the ticket and the labels with
no static part; its scores mean nothing.
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
from eval.hook import MeasurementError
from eval.options import check_options
from eval.progress import work_through
from eval.reports.tickets import FULL_BATCHED, LETTERED, OURS_BATCHED, SHARES, SINGLE, write_report
from eval.results import RunFolder
from eval.tickets.data import Ticket, read_tickets, spread
from eval.tickets.instruction import TEMPLATE, answers_of, instruction
from eval.tickets.recipes import CacheRecipe, Floor, FullEncoding, LabelScorer
from promptcache import PromptCache
from promptcache.errors import RequestError
from promptcache.runtime.scoring import Score

Row = Callable[[Sequence[str]], list[list[Score]]]

_GROUP = 32
_MAIN_SHARE = 0.87
_BATCHES = {"full, batches of 8": 8, FULL_BATCHED: 32, OURS_BATCHED: 32}
_LETTERS = 26
_CURVE = 10
_TOLERANCE = 1e-3
"""Log-probability per token by which float32 scores of a batch may differ from those one by one."""


def run(config: EvalConfig, results: RunFolder) -> None:
    """All tickets at the main share, by names and by letters, then some at each share of the curve."""
    check_options(config, ())
    if config.data is None:
        raise RequestError("there are no tickets", hint="--data FILE.csv, with the columns text and category")
    tickets = spread(read_tickets(Path(config.data)), config.limit)
    labels = sorted({ticket.category for ticket in tickets})
    groups = [tickets[at : at + _GROUP] for at in range(0, len(tickets), _GROUP)]
    main = [f"main/{number}" for number in range(len(groups))]
    letters = [f"letters/{number}" for number in range(len(groups))] if len(labels) <= _LETTERS else []
    curve = [f"curve/{share}" for share in SHARES]
    bench: _Bench | None = None
    for part in work_through(results, [*main, *letters, *curve], "tickets"):
        kind, name = part.split("/")
        bench = bench or _Bench(config, tickets, labels)
        if kind == "main":
            bench.set_share(_MAIN_SHARE)
            results.add(part, bench.measure(groups[int(name)], [*SINGLE, *_BATCHES]))
        elif kind == "letters":
            bench.set_share(_MAIN_SHARE, letters=True)
            results.add(part, bench.measure(groups[int(name)], LETTERED))
        else:
            bench.set_share(float(name))
            results.add(part, bench.measure(spread(tickets, _CURVE), SINGLE))
    write_report(results, labels, [ticket.category for ticket in tickets])


class _Bench:
    """The model, and the rows for one static instruction at a time."""

    def __init__(self, config: EvalConfig, tickets: list[Ticket], labels: list[str]) -> None:
        self.engine = PromptCache.from_pretrained(
            config.model, dtype=config.dtype, device=config.device, store=IN_MEMORY
        )
        self.dtype = config.dtype
        self.tokenizer = self.engine.tokenizer
        self.labels = labels
        # Examples come from the end of the file and repeat where a share needs more than there are.
        self.examples = [ticket for _ in range(20) for ticket in reversed(tickets)]
        lengths = [self.count(TEMPLATE.replace("{item}", ticket.text)) for ticket in tickets]
        self.item_tokens = statistics.mean(lengths)
        self.stands: tuple[float, bool] | None = None

    def count(self, text: str) -> int:
        return len(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def set_share(self, share: float, *, letters: bool = False) -> None:
        """Prepares all rows for an instruction of that share, and warms them up. With `letters` one letter stands for
        each label."""
        if (share, letters) == self.stands:
            return
        self.stands = share, letters
        answers = answers_of(self.labels, letters=letters)
        static = instruction(answers, self.examples, self.count, round(share / (1 - share) * self.item_tokens))
        continuations = [f" {answer}" for answer in answers.values()]
        ids = [self.tokenizer(text, add_special_tokens=False)["input_ids"] for text in continuations]
        scorer = LabelScorer(self.engine.model, ids, self.tokenizer.pad_token_id)
        prefix = self.engine.prefix(static)
        self.static_tokens = prefix.num_tokens
        full = FullEncoding(scorer, self.tokenizer, static)
        self.rows: dict[str, Row] = {
            "full": full,
            "deepcopy": CacheRecipe(scorer, self.tokenizer, static, crop=False),
            "crop": CacheRecipe(scorer, self.tokenizer, static, crop=True),
            "ours": lambda suffixes: [prefix.score(suffix, continuations) for suffix in suffixes],
            "floor": Floor(scorer, self.tokenizer),
            **dict.fromkeys(_BATCHES, full),
            OURS_BATCHED: lambda suffixes: prefix.score_batch(suffixes, continuations, batch_size=_GROUP),
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
        if OURS_BATCHED in rows:
            self._check_batch(found["ours"], found[OURS_BATCHED])
        return {"rows": found, "static_tokens": self.static_tokens, "item_tokens": self.item_tokens}

    def _check_batch(self, one: dict[str, Any], batched: dict[str, Any]) -> None:
        """Raises MeasurementError where a batch computed more, or scored otherwise, than its items one by one."""
        differ = float(np.abs(np.array(one["scores"]) - np.array(batched["scores"])).max())
        if one["tokens"] != batched["tokens"] or (self.dtype == "float32" and differ > _TOLERANCE):
            raise MeasurementError(
                f"{OURS_BATCHED}: {batched['tokens']} tokens, and scores {differ:.1e} from those one by one, which"
                f" took {one['tokens']}",
                hint="a row of a batch must be computed as it is alone",
            )

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
