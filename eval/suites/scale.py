"""What a request costs as work grows: a longer context, more modules, more questions at once. Each against the floor,
the stock model over the new tokens alone."""

from __future__ import annotations

from typing import Any

from eval.config import EvalConfig
from eval.engine import max_positions
from eval.floor.bench import Bench
from eval.floor.grid import Variant
from eval.floor.question import LATER_TOKENS
from eval.hook import MeasurementError
from eval.options import check_options
from eval.progress import work_through
from eval.reports.scale import write_report
from eval.results import RunFolder
from eval.scale.batch import BatchBench
from eval.scale.grid import LAYOUTS, MOST, OPTIONS, Grid
from eval.scale.single import measure
from promptcache.errors import PromptCacheError, RequestError


def run(config: EvalConfig, results: RunFolder) -> None:
    """Measures what is missing, then writes the report. A part that the model has no room for says so instead."""
    check_options(config, OPTIONS)
    grid = Grid.of(config)
    bench: _ScaleBench | None = None
    try:
        for part in work_through(results, grid.parts(), "scale"):
            bench = bench or _ScaleBench(config, grid)
            try:
                found = bench.measure(part)
            except MeasurementError:
                raise
            except PromptCacheError as fault:
                found = {"skipped": {part: fault.message}}
            results.add(part, found)
    finally:
        if bench is not None:
            bench.batches.close()
    rows = {row["part"]: row for row in results.rows()}
    write_report(results, grid, [rows[part] for part in grid.parts()])


class _ScaleBench:
    """The model, and what each part measures with it."""

    def __init__(self, config: EvalConfig, grid: Grid) -> None:
        self._config, self._grid = config, grid
        self._bench = Bench(config)
        self.batches = BatchBench(self._bench, grid, config)

    def measure(self, part: str) -> dict[str, Any]:
        """The figures of a part. Raises RequestError for what cannot be held."""
        axis, *rest = part.split("/")
        grid = self._grid
        if axis == "batch":
            return self.batches.measure(int(rest[0]))
        if axis == "tokens":
            tokens = self._most() if rest[0] == MOST else int(rest[0])
            return self._single(tokens, (Variant(1, "reserved"),), stock=True)
        if rest[0] == "total":
            counts = [count for count in grid.modules if count <= grid.total] or [1]
            return self._single(grid.total, [Variant(count, name) for name in LAYOUTS for count in counts], stock=True)
        count = int(rest[1])
        return self._single(count * grid.each, [Variant(count, name) for name in LAYOUTS], stock=False)

    def _single(self, tokens: int, variants: Any, *, stock: bool) -> dict[str, Any]:
        return measure(self._bench, self._grid, self._config, tokens, variants, stock=stock)

    def _most(self) -> int:
        limit = max_positions(self._bench.engine)
        if limit is None:
            raise RequestError("the model names no largest length", hint="give lengths in the options: {tokens: [...]}")
        return limit - self._grid.fresh - LATER_TOKENS - 1
