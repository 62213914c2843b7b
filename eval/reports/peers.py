"""The report of the `peers` suite."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from eval.floor.question import LATER_TOKENS
from eval.floor.ratios import middle, paired
from eval.plots import bar_plot
from eval.reports.run_facts import run_facts
from eval.results import RunFolder
from eval.table import markdown_table

Row = dict[str, Any]


def write_report(results: RunFolder, rows: Sequence[Row]) -> None:
    """report.md and peers.png."""
    sections = ["# Beside other libraries\n", _how(results, rows), run_facts(results, data=False), *_versions(rows)]
    for row in rows:
        sections += [f"## {row['context']:,} reused tokens, {row['fresh'][-1]} new ones\n", _table(row)]
    sections += [*_skipped(rows), "![peers](peers.png)\n"]
    results.write_report("\n".join(sections))
    _draw(results, rows)


def _how(results: RunFolder, rows: Sequence[Row]) -> str:
    return (
        "All sides have the same weights and get the same prompts: a context that was stored before, and a question"
        " that is new from its first token on. `ours` has the context as one module and is timed from strings,"
        " `deepcopy` and `crop` (transformers' recipes, in this process) from the question's text; the others run in"
        " processes of their own and are timed there, from token ids to the first token. `floor` is the stock model"
        " over the question alone. `llama.cpp` has the weights in this run's dtype, `as-stored` those of its file; its"
        " states are in float16, its default. vLLM reuses whole blocks: contexts that are multiples of 128 suit it"
        " best.\n\n"
        f"Medians of {rows[0]['turns']} turns, every side in every turn, another one first each time; a peer is stopped"
        f" while the others answer. Before them {results.config.warmup} turns as warm-up. Ratios are medians of the"
        f" turns' ratios: below 1, `ours / side` says that ours is faster. A later token is the mean of {LATER_TOKENS}"
        " steps. `not reused` is what the peer says that it computed of the prompt; `same token`: turns in which its"
        " first token is that of `crop`.\n"
    )


def _table(row: Row) -> str:
    ours, sides = row["ours"], row["sides"]
    prompt = row["context"] + row["fresh"][-1]
    lines = [["ours", middle(ours["ttft_ms"]), 1.0, middle(ours["later_ms"]), 1.0, row["fresh"][-1], _same(row, ours)]]
    for name, side in sides.items():
        later = side.get("later_ms", [None] * row["turns"])
        reused = side.get("reused")
        lines.append(
            [
                name,
                middle(side["ttft_ms"]),
                paired(ours["ttft_ms"], side["ttft_ms"]),
                middle(later),
                paired(ours["later_ms"], later),
                prompt - min(reused) if reused else row["fresh"][-1],
                _same(row, side),
            ]
        )
    headers = ("side", "TTFT, ms", "ours / side", "later token, ms", "ours / side, later", "not reused", "same token")
    return markdown_table(headers, lines)


def _same(row: Row, side: Row) -> str | None:
    if "first_tokens" not in side:
        return None
    pairs = list(zip(row["sides"]["crop"]["first_tokens"], side["first_tokens"], strict=True))
    return f"{sum(a == b for a, b in pairs)} of {len(pairs)}"


def _versions(rows: Sequence[Row]) -> Iterator[str]:
    found = {name: side["version"] for row in rows for name, side in row["sides"].items() if "version" in side}
    if found:
        yield "".join(f"- {name}: {version}\n" for name, version in found.items())


def _skipped(rows: Sequence[Row]) -> Iterator[str]:
    reasons = {name: reason for row in rows for name, reason in row["skipped"].items()}
    if reasons:
        yield "## Not measured\n"
        yield "".join(f"- {name}: {' '.join(reason.split())}\n" for name, reason in reasons.items())


def _draw(results: RunFolder, rows: Sequence[Row]) -> None:
    names = ["ours", *dict.fromkeys(name for row in rows for name in row["sides"])]
    measured = [name for name in names if all(name == "ours" or name in row["sides"] for row in rows)]
    bars = {
        name: [middle((row["ours"] if name == "ours" else row["sides"][name])["ttft_ms"]) or 0.0 for row in rows]
        for name in measured
    }
    labels = [f"{row['context']:,}" for row in rows]
    bar_plot(results.path / "peers.png", labels, bars, title="Time to first token, by reused tokens", ylabel="ms")
