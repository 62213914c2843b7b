"""The report of the `gaps` suite."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean

from eval import bootstrap
from eval.longbench.gap_case import MODULES
from eval.plots import line_plot
from eval.reports.by_dataset import Row, by_dataset
from eval.reports.fidelity import interval_text
from eval.reports.run_facts import run_facts
from eval.results import RunFolder
from eval.table import markdown_table

_SIDES = {
    "full": "full prefill",
    "reuse": "reuse, modular",
    "reuse_at_its_positions": "reuse against the full prefill at the same positions",
}


def write_report(results: RunFolder, rows: Sequence[Row], gaps: Sequence[int]) -> None:
    """report.md and gaps.png."""
    tokens = [row["tokens"] for row in rows]
    sections = [
        "# Gaps between positions\n",
        f"One prompt, the same tokens, its context in at most {MODULES} modules; before each module but the first, and"
        " before the question, so many positions are left free. Everything is held against the full prefill without"
        " gaps, on the first 32 tokens of the gold answer: so `full prefill` shows what discontinuous positions cost by"
        " themselves, `reuse` what they and separate encoding (`isolated`) cost together. The full prefill is stock"
        " transformers under an explicit causal mask, since it can take a gap for the border of packed"
        " sequences. A hook on the model proved that it computed every token and reuse only the fresh ones."
        f" n = {len(rows)} records of {min(tokens):,} to {max(tokens):,} tokens. KL in nats, 95 % bootstrap intervals"
        " in brackets.\n",
        run_facts(results),
        "## All records\n",
        _pooled(rows, gaps),
        "## Mean KL by dataset\n",
        _datasets(rows, gaps),
        "\n![gaps](gaps.png)\n",
    ]
    results.write_report("\n".join(sections))
    points = {
        label: [(float(gap), mean(_column(rows, gap, side, "mean_kl"))) for gap in gaps]
        for side, label in _SIDES.items()
    }
    line_plot(
        results.path / "gaps.png", points, title="What gaps cost", xlabel="free positions at each place", ylabel="KL"
    )


def _pooled(rows: Sequence[Row], gaps: Sequence[int]) -> str:
    lines: list[list[object]] = []
    for side, label in _SIDES.items():
        for gap in gaps:
            figures = [
                interval_text(bootstrap.mean(_column(rows, gap, side, key))) for key in ("mean_kl", "first_kl", "top1")
            ]
            against = 0 if side != "reuse_at_its_positions" else gap
            nll = bootstrap.difference(_column(rows, against, "full", "nll"), _column(rows, gap, side, "nll"))
            lines.append([label, gap, *figures, interval_text(nll, sign=True)])
    headers = ["side", "gap", "mean KL", "KL, first token", "top-1 agreement", "NLL - full"]
    return markdown_table(headers, lines)


def _datasets(rows: Sequence[Row], gaps: Sequence[int]) -> str:
    lines: list[list[object]] = [
        [
            dataset,
            len(group),
            *(mean(_column(group, gap, side, "mean_kl")) for side in ("full", "reuse") for gap in gaps),
        ]
        for dataset, group in by_dataset(rows)
    ]
    headers = [f"{side}, {gap}" for side in ("full", "reuse") for gap in gaps]
    return markdown_table(["dataset", "n", *headers], lines, digits=3)


def _column(rows: Sequence[Row], gap: int, side: str, key: str) -> list[float]:
    return [row["gaps"][str(gap)][side][key] for row in rows]
