"""The report of the `ttft` suite: tables for the README and two pictures."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from statistics import mean, median

from eval.paper import PAPER_NAMES, PAPER_TTFT_CLAIMS
from eval.plots import bar_plot, line_plot
from eval.reports.by_dataset import Row, by_dataset, paper_and_others
from eval.reports.run_facts import run_facts
from eval.results import RunFolder
from eval.rows import DEFAULT, TIMED
from eval.table import markdown_table

_OURS = tuple(row.name for row in TIMED)


def write_report(results: RunFolder, rows: Sequence[Row], curve: Sequence[Row]) -> None:
    """report.md, ttft.png and growth.png from the records' rows and the growth curve's."""
    sections = ["# Time to first token on LongBench\n", _how(results, rows), run_facts(results)]
    lengths = sorted({row["max_length"] for row in rows}, key=lambda length: -(length or math.inf))
    for length in lengths:
        group = [row for row in rows if row["max_length"] == length]
        title = f"at most {length:,} tokens" if length else "as long as the model allows"
        sections += [f"## Prompts of {title}\n", *_group(group)]
    top = [row for row in rows if row["max_length"] == lengths[0]]
    sections += ["## Beside the paper's claims\n", _claims(paper_and_others(top)[0] or top)]
    sections += ["## As the context grows\n", _growth(curve), "\n![growth](growth.png)\n"]
    results.write_report("\n".join(sections))
    _draw(results, top, curve)


def _how(results: RunFolder, rows: Sequence[Row]) -> str:
    config = results.config
    exact = {side: sum(row["sides"][side]["exact"] for row in rows) for side in ("whole", "modular")}
    more = [row["sides"]["modular"]["tokens"] / row["sides"]["whole"]["tokens"] - 1 for row in rows]
    return (
        "`stock`: the full prefill of the stock model, `model(ids, logits_to_keep=1)`, from token ids to the first"
        " token, on the ids of the whole prompt. `whole`: instruction and context stored as one text; exact for"
        f" {exact['whole']} of {len(rows)} prompts. `modular`: every passage, paragraph, example, file or window stored"
        f" apart (encoding `isolated`), nothing computed again; exact for {exact['modular']}. `{DEFAULT}`: the same"
        " encoded behind the instruction, with that repair, the engine's default. Ours is timed from the text of the"
        " prompt: planning and tokenizing are in it, and are not in the stock's time. A hook on the model proved for"
        " every run that stock computed every token and ours only the fresh and the repaired ones.\n\n"
        f"{config.repeats} repeats a record, sides interleaved, the first side changing; before them {config.warmup} of"
        " ours and a short stock prefill as warm-up. A record's figure is the median of its repeats, a dataset's the"
        " mean of its records, a ratio that of the two means. n: records. Encoding is timed once. Modules are tokenized"
        f" apart, which changes the number of tokens by {min(more):+.1%} to {max(more):+.1%}; both are held against the"
        " one stock time.\n"
    )


def _group(rows: Sequence[Row]) -> Iterable[str]:
    paper, others = paper_and_others(rows)
    for title, chosen in (("The paper's datasets", paper), ("The other datasets", others)):
        if chosen:
            yield f"### {title}: time to first token, ms\n"
            yield _main_table(chosen)
            yield f"### {title}: what the repair of `{DEFAULT}` takes\n"
            yield _repair_table(chosen)
            yield f"### {title}: where the time goes, ms\n"
            yield _parts_table(chosen)
            yield f"### {title}: encoding once, and each later token\n"
            yield _encode_table(chosen)


def _main_table(rows: Sequence[Row]) -> str:
    def line(name: str, group: Sequence[Row]) -> list[object]:
        stock, ours = _ttft(group, "stock"), [_ttft(group, side) for side in _OURS]
        tokens = [round(mean(row["sides"][side]["tokens"] for row in group)) for side in ("whole", "modular")]
        fresh = round(mean(row["sides"]["whole"]["fresh"] for row in group))
        modules = round(mean(row["sides"]["modular"]["modules"] for row in group))
        return [name, len(group), *tokens, fresh, modules, stock, *ours, *(stock / time for time in ours)]

    headers = ("dataset", "n", "tokens, whole", "modular", "fresh", "modules")
    ratios = (f"stock / {side}" for side in _OURS)
    return markdown_table([*headers, "stock", *_OURS, *ratios], _by_dataset(rows, line), digits=1)


def _repair_table(rows: Sequence[Row]) -> str:
    def line(name: str, group: Sequence[Row]) -> list[object]:
        none, repaired = _ttft(group, "modular"), _ttft(group, DEFAULT)
        again = mean(row["sides"][DEFAULT]["computed"] - row["sides"]["modular"]["computed"] for row in group)
        return [name, round(again), none, repaired, repaired / none]

    headers = ("dataset", "tokens again", "modular, ms", f"{DEFAULT}, ms", "ratio")
    return markdown_table(headers, _by_dataset(rows, line), digits=2)


def _parts_table(rows: Sequence[Row]) -> str:
    def line(name: str, group: Sequence[Row]) -> list[object]:
        parts = ("plan_ms", "assemble_ms", "prefill_ms")
        return [name, *(_mean(group, side, part) for side in _OURS for part in parts)]

    headers = [f"{side}: {part}" for side in _OURS for part in ("plan", "assemble", "prefill")]
    return markdown_table(["dataset", *headers], _by_dataset(rows, line), digits=1)


def _encode_table(rows: Sequence[Row]) -> str:
    def line(name: str, group: Sequence[Row]) -> list[object]:
        cells: list[object] = [name]
        for side in _OURS:
            encode = mean(row["sides"][side]["encode_ms"] for row in group)
            saved = _ttft(group, "stock") - _ttft(group, side)
            stored = mean(row["sides"][side]["stored_bytes"] for row in group) / 2**20
            cells += [encode, break_even(encode, saved), stored]
        return [*cells, *(_mean(group, side, "later_ms") for side in ("stock", *_OURS))]

    headers = [f"{side}: {what}" for side in _OURS for what in ("encoding, ms", "break-even, requests", "MiB")]
    later = [f"later token, {side}, ms" for side in ("stock", *_OURS)]
    return markdown_table(["dataset", *headers, *later], _by_dataset(rows, line), digits=1)


def break_even(encode_ms: float, saved_ms: float) -> int | None:
    """The number of requests from which encoding once and reusing takes less time than stock prefills; None: never."""
    return math.floor(encode_ms / saved_ms) + 1 if saved_ms > 0 else None


def _claims(rows: Sequence[Row]) -> str:
    lines: list[list[object]] = [["the paper", claim, f"{value}x"] for claim, value in PAPER_TTFT_CLAIMS]
    for side in _OURS:
        datasets = {name: _ttft(group, "stock") / _ttft(group, side) for name, group in _named(rows)}
        best, least = max(datasets, key=datasets.__getitem__), min(datasets, key=datasets.__getitem__)
        record = max(rows, key=lambda row: _ttft([row], "stock") / _ttft([row], side))
        lines += [
            ["here", f"{side}, highest dataset: {best}", f"{datasets[best]:.1f}x"],
            ["here", f"{side}, lowest dataset: {least}", f"{datasets[least]:.1f}x"],
            ["here", f"{side}, median of {len(datasets)} datasets", f"{median(datasets.values()):.1f}x"],
            [
                "here",
                f"{side}, highest record: {record['part']}",
                f"{_ttft([record], 'stock') / _ttft([record], side):.1f}x",
            ],
        ]
    return markdown_table(["who", "stock time over time with reuse", "value"], lines)


def _growth(curve: Sequence[Row]) -> str:
    lines = []
    for row in _growing(curve):
        group = [row]
        stock, ours = _ttft(group, "stock"), [_ttft(group, side) for side in _OURS]
        encode = [row["sides"][side]["encode_ms"] for side in _OURS]
        later = [_mean(group, side, "later_ms") for side in ("stock", *_OURS)]
        tokens, fresh = row["sides"]["whole"]["tokens"], row["sides"]["whole"]["fresh"]
        lines.append([tokens, fresh, stock, *ours, *(stock / time for time in ours), *encode, *later])
    sides = ("stock", *_OURS)
    headers = ["tokens", "fresh", *(f"{side}, ms" for side in sides), *(f"stock / {side}" for side in _OURS)]
    headers += [f"encoding {side}, ms" for side in _OURS] + [f"later token, {side}, ms" for side in sides]
    source = f"One record cut to more and more tokens: {curve[0]['dataset']}, {curve[0]['record']}.\n\n"
    return source + markdown_table(headers, lines, digits=1)


def _growing(curve: Sequence[Row]) -> list[Row]:
    """The points, but those of lengths that the record does not reach."""
    return [next(group) for _, group in itertools.groupby(curve, key=lambda row: row["sides"]["whole"]["tokens"])]


def _draw(results: RunFolder, rows: Sequence[Row], curve: Sequence[Row]) -> None:
    sides = ("stock", *_OURS)
    groups = _named(rows)
    bars = {side: [_ttft(group, side) for _, group in groups] for side in sides}
    names = [name for name, _ in groups]
    bar_plot(results.path / "ttft.png", names, bars, title="Time to first token", ylabel="ms", log=True)
    points = _growing(curve)
    lines = {side: [(row["sides"]["whole"]["tokens"], _ttft([row], side)) for row in points] for side in sides}
    line_plot(
        results.path / "growth.png", lines, title="As the context grows", xlabel="prompt tokens", ylabel="ms", log=True
    )


def _by_dataset(rows: Sequence[Row], line: Callable[[str, Sequence[Row]], list[object]]) -> list[list[object]]:
    return [line(name, group) for name, group in _named(rows)]


def _named(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    return [(PAPER_NAMES.get(name, name), group) for name, group in by_dataset(rows)]


def _ttft(rows: Sequence[Row], side: str) -> float:
    found = _mean(rows, side, "ttft_ms")
    assert found is not None, "there is at least one repeat"
    return found


def _mean(rows: Sequence[Row], side: str, key: str) -> float | None:
    """The mean of the records' medians; None where no record has the figure."""
    found = [median(values) for row in rows if (values := row["sides"][side][key])]
    return mean(found) if found else None
