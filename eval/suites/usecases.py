"""The paper's three use cases on the project's own schemas: time to first token with reuse and by the stock model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval.config import EvalConfig
from eval.engine import end_ids, loaded, open_engine
from eval.options import check_options
from eval.progress import work_through
from eval.reports.usecases import write_report
from eval.results import RunFolder
from eval.rows import REPAIRS
from eval.stock_model import StockModel
from eval.timed import OurSide, StockSide
from promptcache.config import DEFAULT_ENCODING, DEFAULT_REPAIR
from promptcache.errors import RequestError
from promptcache.pml import read_schema
from promptcache.runtime.repair.base import repair_policy
from promptcache.runtime.schemas import LoadedSchema


@dataclass(frozen=True)
class UseCase:
    """A schema of the folder, and those of its prompts that are the use case; none named: all."""

    schema: str
    prompts: tuple[str, ...] = ()

    def files(self, folder: Path, limit: int | None) -> list[Path]:
        """The prompts' files. Raises RequestError where there is none, or one is missing."""
        place = folder / f"{self.schema}.prompts"
        found = [place / f"{name}.xml" for name in self.prompts] or sorted(place.glob("*.xml"))
        missing = [file for file in found if not file.is_file()]
        if missing or not found:
            raise RequestError(
                f"there is no {missing[0] if missing else place / '*.xml'}",
                hint="run it from the project's folder, or give the folder of schemas with --data",
            )
        return found[:limit]


_CASES = {
    "code": UseCase("game"),
    "personalisation": UseCase("persona"),
    "parameters": UseCase("trip", ("defaults", "family", "wishes")),
}
"""By the names of `PAPER_USE_CASES`."""


def run(config: EvalConfig, results: RunFolder) -> None:
    """Measures what is missing, then writes the report. `--limit`: prompts a use case."""
    check_options(config, ("repairs",))
    repairs = config.options.get("repairs", REPAIRS)
    if isinstance(repairs, str) or not all(isinstance(name, str) for name in repairs):
        raise RequestError(f"options: repairs is {repairs!r}", hint="it is a list of repair policies' names")
    names = [repair_policy(name).name for name in repairs]
    folder = config.data or Path("schemas")
    files = {name: case.files(folder, config.limit) for name, case in _CASES.items()}
    bench: _Bench | None = None
    for part in work_through(results, list(_CASES), "use cases"):
        bench = bench or _Bench(config, names)
        results.add(part, bench.measure(folder / f"{_CASES[part].schema}.xml", files[part]))
    rows = {row["part"]: row for row in results.rows()}
    write_report(results, [rows[part] for part in _CASES])


class _Bench:
    """The model on both sides. Of ours, `none` comes first, then the engine's own repair, then the others."""

    def __init__(self, config: EvalConfig, repairs: list[str]) -> None:
        self.config = config
        self.engine = open_engine(config, encoding=DEFAULT_ENCODING, repair=DEFAULT_REPAIR)
        self.stock = StockModel(self.engine.model, end_ids(self.engine))
        self.repairs = list(dict.fromkeys(("none", self.engine.repair, *repairs)))

    def measure(self, schema: Path, prompts: list[Path]) -> dict[str, Any]:
        """All prompts of one use case, one after the other, on all sides."""
        with loaded(self.engine, read_schema(schema)) as made:
            return {
                "schema": made.name,
                "default": self.engine.repair,
                "stored_tokens": made.num_tokens,
                "stored_bytes": made.num_bytes,
                "encode_ms": made.encode_ms,
                "prompts": {file.stem: self._prompt(file, made, number) for number, file in enumerate(prompts)},
            }

    def _prompt(self, file: Path, schema: LoadedSchema, number: int) -> dict[str, Any]:
        """The sides take turns; another one begins each repeat, and each prompt."""
        ours = {repair: OurSide(self.engine, file, schema, repair) for repair in self.repairs}
        stock = StockSide(self.stock, self.engine, ours["none"])
        stock.warm_up()
        for side in ours.values():
            for _ in range(self.config.warmup):
                side.take()
            side.forget()
        turns: list[Callable[[], None]] = [stock.take, *(side.take for side in ours.values())]
        for repeat in range(self.config.repeats):
            for turn in range(len(turns)):
                turns[(number + repeat + turn) % len(turns)]()
        positions = ours["none"].plan.position_ids
        return {
            "gaps": positions[-1] + 1 - len(positions),
            "stock": stock.figures(),
            "ours": {repair: side.figures() for repair, side in ours.items()},
        }
