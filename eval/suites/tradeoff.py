"""How much closer to a full prefill an answer comes for how much more computation: every way to encode and repair."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from eval.config import EvalConfig
from eval.longbench.sample import Sample, choose_samples
from eval.options import check_options, names_option
from eval.progress import work_through
from eval.reports.tradeoff import write_report
from eval.results import RunFolder
from eval.rows import DEFAULT
from eval.tradeoff.measure import Bench
from eval.tradeoff.way import find_ways
from promptcache.errors import RequestError

_DATASETS = ("2wikimqa", "hotpotqa", "musique", "multi_news", "passage_retrieval_en")
_LENGTHS = (2048, 6144)
_SCORED = ("none", DEFAULT, "anchored query:0.1")


def run(config: EvalConfig, results: RunFolder) -> None:
    """Measures what is missing, then writes the report."""
    check_options(config, ("ways", "lengths", "scored"))
    ways = find_ways(config)
    scored = names_option(config, "scored", _SCORED, [way.name for way in ways])
    samples = _samples(config)
    bench: Bench | None = None
    for part in work_through(results, list(samples), "tradeoff"):
        bench = bench or Bench(config, ways, scored)
        results.add(part, bench.measure(samples[part]))
    rows = {row["part"]: row for row in results.rows()}
    write_report(results, [rows[part] for part in samples], ways)


def _samples(config: EvalConfig) -> dict[str, Sample]:
    """Records by part, the shorter length first; `max_length` alone stands for the lengths."""
    lengths: Any = config.options.get("lengths", [config.max_length] if config.max_length else _LENGTHS)
    if isinstance(lengths, str) or not all(type(length) is int and length > 0 for length in lengths):
        raise RequestError(f"options: lengths is {lengths!r}", hint="it is a list of whole numbers, as [2048, 6144]")
    chosen = choose_samples(config, _DATASETS)
    samples = [replace(sample, max_length=length) for length in sorted(set(lengths)) for sample in chosen]
    return {sample.part: sample for sample in samples}
