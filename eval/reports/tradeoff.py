"""The report of the `tradeoff` suite."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import mean, median

from eval import bootstrap
from eval.plots import scatter_plot
from eval.reports.by_dataset import Row, by_dataset
from eval.reports.fidelity import interval_text
from eval.reports.run_facts import run_facts
from eval.results import RunFolder
from eval.table import markdown_table
from eval.tradeoff.choice import (
    column,
    halves,
    share_again,
    share_repaired,
    ttft_ratio,
    within_share,
    within_time,
)
from eval.tradeoff.way import Way

_BUDGETS = (0.15, 0.3)
_TIMES = 1.5


def write_report(results: RunFolder, rows: Sequence[Row], ways: Sequence[Way]) -> None:
    """report.md and pictures."""
    lengths = sorted({row["max_length"] for row in rows})
    sections = ["# Quality against computation\n", _how(rows), run_facts(results)]
    for length in lengths:
        group = [row for row in rows if row["max_length"] == length]
        sections += [f"## Prompts of at most {length:,} tokens\n", *_length(group, ways)]
    if len(lengths) > 1:
        sections += ["## All lengths\n", _gone(rows, ways), *_chosen(rows, ways)]
    sections.append("\n![share](tradeoff.png)\n\n![time](tradeoff-ttft.png)\n")
    results.write_report("\n".join(sections))
    _draw(results, rows, ways)


def _how(rows: Sequence[Row]) -> str:
    modules = [row["ways"]["none"]["modules"] for row in rows]
    return (
        "Every passage is a module, and all of them are imported. A way is an encoding (`isolated` where none is said),"
        " a layout (`reserved`), a repair policy; `parameters`: the number in each passage's heading is an argument;"
        " `gaps`: free positions stand between the passages. Contexts are cut to whole passages, one with the answer"
        " kept. KL(full || way) in nats on the first 32 tokens of the gold answer, against the stock model's full"
        " prefill of the same ids at the same positions; 95 % bootstrap intervals over records in brackets, paired"
        " where two ways are compared. *Again* is what a way computes beside the fresh tokens, passes that choose"
        " counted, as a share of the stored tokens; *repaired* is what of it are stored tokens. A hook proved every"
        " count. TTFT: medians of ways that take turns. Records of even number choose a policy, those of odd number"
        " report it."
        f" n = {len(rows)} records and lengths, {min(modules)} to {max(modules)} modules.\n"
    )


def _length(rows: Sequence[Row], ways: Sequence[Way]) -> Iterator[str]:
    yield _table(rows, ways)
    yield "### What is gone of the KL\n"
    yield _gone(rows, ways)
    yield from _chosen(rows, ways)
    yield "### Mean KL by dataset\n"
    yield _datasets(rows, ways)


def _table(rows: Sequence[Row], ways: Sequence[Way]) -> str:
    lines: list[list[object]] = []
    full_ms = median(row["full"]["ms"] for row in rows)
    scores = [row["full"].get("score") for row in rows]
    full_score = mean(scores) if None not in scores else None
    full_nll = mean(row["full"]["nll"] for row in rows)
    lines.append(["full prefill", "0", "0", "1", f"{full_nll:.3f}", full_score, None, None, full_ms, None])
    for way in ways:
        kl, first, top1 = (
            interval_text(bootstrap.mean(column(rows, way.name, key))) for key in ("mean_kl", "first_kl", "top1")
        )
        nll = bootstrap.difference(column(rows, way.name, "full_nll"), column(rows, way.name, "nll"))
        scored = all("score" in row["ways"][way.name] for row in rows)
        lines.append(
            [
                way.name,
                kl,
                first,
                top1,
                interval_text(nll, sign=True),
                mean(column(rows, way.name, "score")) if scored else None,
                100 * share_repaired(rows, way.name),
                100 * share_again(rows, way.name),
                median(median(row["ways"][way.name]["ttft_ms"]) for row in rows),
                ttft_ratio(rows, way.name),
            ]
        )
    headers = ["way", "mean KL", "KL, first token", "top-1", "NLL - full", "score", "% repaired", "% again"]
    return markdown_table([*headers, "TTFT, ms", "TTFT / none"], lines, digits=1)


def _gone(rows: Sequence[Row], ways: Sequence[Way]) -> str:
    """Against the `none` of the same kind of prompt, encoded alone."""
    lines: list[list[object]] = []
    names = {way.name for way in ways}
    for way in ways:
        base = f"{way.kind} none" if way.kind != "modular" else "none"
        if way.name == base or base not in names:
            continue
        found = bootstrap.reduction(column(rows, base, "mean_kl"), column(rows, way.name, "mean_kl"))
        first = bootstrap.reduction(column(rows, base, "first_kl"), column(rows, way.name, "first_kl"))
        again = 100 * share_again(rows, way.name)
        lines.append([way.name, base, again, _percent(found), _percent(first)])
    return markdown_table(["way", "against", "% again", "% gone, mean KL", "% gone, first token"], lines, digits=1)


def _chosen(rows: Sequence[Row], ways: Sequence[Way]) -> Iterator[str]:
    choosing, reporting = halves(rows)
    if not choosing or not reporting:
        return
    names = [way.name for way in ways if way.kind == "modular"]
    lines: list[list[object]] = []
    for label, found in (
        *((f"at most {budget:.0%} again", within_share(choosing, names, budget)) for budget in _BUDGETS),
        (f"TTFT at most {_TIMES} of none", within_time(choosing, names, _TIMES)),
    ):
        if found is None:
            continue
        gone = bootstrap.reduction(column(reporting, "none", "mean_kl"), column(reporting, found, "mean_kl"))
        again, times = 100 * share_again(reporting, found), ttft_ratio(reporting, found)
        lines.append([label, found, _percent(gone), again, times])
    yield f"### Chosen on {len(choosing)}, reported on {len(reporting)}\n"
    yield markdown_table(["limit", "way", "% of the KL gone", "% again", "TTFT / none"], lines, digits=1)


def _datasets(rows: Sequence[Row], ways: Sequence[Way]) -> str:
    groups = by_dataset(rows)
    lines: list[list[object]] = [
        [way.name, *(mean(column(group, way.name, "mean_kl")) for _, group in groups)] for way in ways
    ]
    return markdown_table(["way", *(f"{name} ({len(group)})" for name, group in groups)], lines, digits=3)


def _percent(found: bootstrap.Interval) -> str:
    return f"{100 * found.value:.0f} [{100 * found.low:.0f}, {100 * found.high:.0f}]"


def _draw(results: RunFolder, rows: Sequence[Row], ways: Sequence[Way]) -> None:
    shown = [way.name for way in ways if way.kind == "modular"]
    kl = {name: mean(column(rows, name, "mean_kl")) for name in shown}
    for file, label, place in (
        ("tradeoff.png", "% of the stored tokens computed again", lambda name: 100 * share_again(rows, name)),
        ("tradeoff-ttft.png", "time to first token / none", lambda name: ttft_ratio(rows, name)),
    ):
        points = {name: (place(name), kl[name]) for name in shown}
        scatter_plot(results.path / file, points, title="KL to the full prefill", xlabel=label, ylabel="nats a token")
