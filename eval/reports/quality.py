"""The report of the `quality` suite: scores in the form of the paper's table, and fidelity."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import mean

from eval.longbench.split import SPLITTERS
from eval.longbench.tasks import find_task
from eval.paper import PAPER_MODELS, PAPER_NAMES, PAPER_SCORES
from eval.plots import bar_plot
from eval.reports.by_dataset import Row, by_dataset, paper_and_others
from eval.reports.fidelity import column, cost_in_words, dataset_table, is_scored, pooled_table
from eval.reports.run_facts import run_facts
from eval.results import RunFolder
from eval.rows import FULL, NO_CONTEXT, REPAIRS, ROWS
from eval.table import markdown_table

_METRICS = {
    "f1": "F1",
    "rouge_l": "ROUGE-L",
    "classification": "accuracy",
    "retrieval": "accuracy",
    "count": "accuracy",
    "edit_similarity": "edit similarity",
}
_REUSE = tuple(row.name for row in ROWS)


def write_report(results: RunFolder, rows: Sequence[Row]) -> None:
    """report.md and fidelity.png."""
    lengths = sorted({row["max_length"] for row in rows}, key=lambda length: length or math.inf)
    sections = [*_introduction(), run_facts(results)]
    for length in lengths:
        title = f"at most {length:,} tokens" if length else "as long as the model allows"
        sections += [f"## Prompts of {title}\n", *_group([row for row in rows if row["max_length"] == length])]
    results.write_report("\n".join(sections))
    _draw(results, [row for row in rows if row["max_length"] == lengths[0]])


def _introduction() -> Iterator[str]:
    yield "# Answers with reuse beside the stock model's full prefill, on LongBench\n"
    yield (
        f"Rows. `{FULL}`: the stock model over the whole prompt. `whole`: instruction and context stored as one text."
        " `modular`: every passage, paragraph, example, file or window stored apart, encoding `isolated`, nothing"
        " computed again; `anchored`: the same, encoded behind the instruction; with the name of a repair"
        f" ({', '.join(f'`{name}`' for name in REPAIRS)}): the same with that repair. `{NO_CONTEXT}`: the stock model"
        " with the context left out. Modules are tokenized apart, so ids can differ at their borders: each row is held"
        " against a full prefill of its own ids"
        f" (`{NO_CONTEXT}` against that of the whole prompt). A hook on the model proved that the full prefill"
        " computed every token and reuse only the fresh ones. Decoding is greedy.\n"
    )
    yield (
        "Score: LongBench's metric, in percent, best of all gold answers, for the rows whose answers were written out."
        " Fidelity: on the first 32 tokens of the first"
        " gold answer, given token by token: KL(full || row) in nats, mean and at the first token; how often the"
        " likeliest token is the same; negative log-likelihood (NLL) in nats a token. In brackets: 95 % bootstrap"
        " intervals over records, paired where a difference is shown. n: records.\n"
    )
    yield (
        "A small model scores low on LongBench whatever is done to its states, and the records are few: the scores say"
        " little about what reuse costs, the fidelity says more.\n"
    )


def _group(rows: Sequence[Row]) -> Iterator[str]:
    paper, others = paper_and_others(rows)
    if paper and is_scored(rows, FULL):
        yield "### Score, in the form of the paper's accuracy table (there: baseline / cached)\n"
        yield _score_table(paper, beside=True)
    if others and is_scored(rows, FULL):
        yield "### Score, the other datasets\n"
        yield _score_table(others, beside=False)
    known = [row for row in rows if row["answer_tokens"]]
    passages = [row for row in known if SPLITTERS[row["dataset"]].piece == "passage"]
    eight, _ = paper_and_others(known)
    for name, pool in (("all datasets", known), ("passage datasets", passages), ("the paper's datasets", eight)):
        if pool:
            yield f"### Fidelity, {name} pooled\n"
            yield pooled_table(pool, _REUSE)
            yield cost_in_words(pool, "modular", name)
    if known:
        yield "### Fidelity of `modular` by dataset\n"
        yield dataset_table(known, "modular")


def _score_table(rows: Sequence[Row], *, beside: bool) -> str:
    names = [name for name in (FULL, *_REUSE, NO_CONTEXT) if is_scored(rows, name)]
    lines = []
    for dataset, group in by_dataset(rows):
        tokens = round(mean(row["rows"][FULL]["tokens"] for row in group))
        label = f"{PAPER_NAMES.get(dataset, dataset)} ({_METRICS[find_task(dataset).metric]})"
        scores = [mean(column(group, name, "score")) for name in names]
        lines.append([label, len(group), tokens, *scores, *(PAPER_SCORES[dataset] if beside else ())])
    paper = [f"paper: {model}" for model in PAPER_MODELS] if beside else []
    return markdown_table(["dataset", "n", "tokens", *names, *paper], lines)


def _draw(results: RunFolder, rows: Sequence[Row]) -> None:
    groups = by_dataset([row for row in rows if row["answer_tokens"]])
    bars = {name: [mean(column(group, name, "mean_kl")) for _, group in groups] for name in (*_REUSE, NO_CONTEXT)}
    bar_plot(
        results.path / "fidelity.png",
        [dataset for dataset, _ in groups],
        bars,
        title="KL to the full prefill on the gold answer",
        ylabel="nats a token",
    )
