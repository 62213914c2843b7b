"""Time to first token on LongBench: the stock model's full prefill, and ours with the context as one text or cut into
modules. The growth curve is one record cut to more and more tokens."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from itertools import groupby
from typing import Any

from eval.config import EvalConfig
from eval.engine import loaded, max_positions
from eval.longbench.case import build_case
from eval.longbench.fit import fit
from eval.longbench.sample import Sample, choose_samples, longest
from eval.options import check_options
from eval.progress import work_through
from eval.reports.ttft import write_report
from eval.results import RunFolder
from eval.rows import TIMED
from eval.sides import Sides
from eval.timed import OurSide, StockSide

_SHORTEST = 512  # tokens: where the growth curve begins


def run(config: EvalConfig, results: RunFolder) -> None:
    """Measures what is missing, then writes the report."""
    check_options(config, ("long_max_length", "long_limit"))
    samples = choose_samples(config)
    bench: _Bench | None = None
    lengths = _lengths(config)
    if lengths is None:
        bench = _Bench(config)
        lengths = _up_to(max_positions(bench.engine))
    source = longest([sample.record for sample in samples], 1)[0]
    task = next(sample.task for sample in samples if sample.record is source)
    curve = [Sample(task, source, length) for length in lengths]
    todo = {sample.part: sample for sample in (*samples, *curve)}
    for part in work_through(results, list(todo), "ttft"):
        bench = bench or _Bench(config)
        results.add(part, bench.measure(todo[part]))
    rows = {row["part"]: row for row in results.rows()}
    write_report(results, [rows[s.part] for s in samples], [rows[s.part] for s in curve])


def _lengths(config: EvalConfig) -> list[int] | None:
    """Prompt lengths of the growth curve, None where the model has to say how far it goes."""
    highest = max(config.options.get("long_max_length") or 0, config.max_length or 0)
    return _up_to(highest) if highest else None


def _up_to(highest: int | None) -> list[int]:
    lengths, length = [], _SHORTEST
    while length < (highest or _SHORTEST):
        lengths.append(length)
        length *= 2
    return [*lengths, highest or _SHORTEST]


class _Bench:
    """The model on both sides."""

    def __init__(self, config: EvalConfig) -> None:
        self.config = config
        self.sides = Sides.open(config)
        self.engine = self.sides.engine

    def measure(self, sample: Sample) -> dict[str, Any]:
        """All sides of one record, interleaved; the side that begins changes from repeat to repeat."""
        parts = fit(self.engine, sample, self.config.truncate)
        with ExitStack() as stack:
            sides: dict[str, OurSide] = {}
            for (split, encoding), rows in groupby(TIMED, key=lambda row: (row.split, row.encoding)):
                engine = self.sides.with_encoding(encoding).engine
                case = build_case(sample.task, parts, split, f"{sample.record.index}-{split}")
                schema = stack.enter_context(loaded(engine, case.schema))
                sides |= {row.name: OurSide(engine, case.prompt, schema, row.repair) for row in rows}
            whole = sides["whole"].plan
            assert whole.position_ids == tuple(range(whole.num_tokens)), "the stock model would get other positions"
            stock = StockSide(self.sides.stock, self.engine, sides["whole"])
            stock.warm_up()
            turns: list[Callable[[], None]] = [stock.take, *(side.take for side in sides.values())]
            for side in sides.values():
                for _ in range(self.config.warmup):
                    side.take()
                side.forget()
            for repeat in range(self.config.repeats):
                for number in range(len(turns)):
                    turns[(repeat + number) % len(turns)]()
            return {
                "dataset": sample.task.name,
                "record": sample.record.id,
                "max_length": sample.max_length,
                "sides": {"stock": stock.figures(), **{name: side.figures() for name, side in sides.items()}},
            }
