"""Tables of how far reuse moves predictions, with bootstrap intervals over records."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean

from eval import bootstrap
from eval.bootstrap import Interval
from eval.reports.by_dataset import Row, by_dataset
from eval.rows import FULL, NO_CONTEXT
from eval.table import markdown_table

_KEYS = ("mean_kl", "first_kl", "top1")


def pooled_table(rows: Sequence[Row], names: Sequence[str]) -> str:
    """One line a way to answer, all records together; the full prefill first, the one without context last."""
    lines: list[list[object]] = []
    for name in (FULL, *names, NO_CONTEXT):
        nll = mean(column(rows, name, "nll"))
        if name == FULL:
            lines.append([name, len(rows), "0", "0", "1", nll, "0", "0"])
            continue
        figures = [interval_text(bootstrap.mean(column(rows, name, key))) for key in _KEYS]
        more = [_nll(rows, name), _score(rows, name)]
        lines.append([name, len(rows), *figures, nll, *more])
    headers = ["row", "n", "mean KL", "KL, first token", "top-1 agreement", "NLL", "NLL - full", "score - full"]
    return markdown_table(headers, lines, digits=3)


def dataset_table(rows: Sequence[Row], name: str) -> str:
    """One way to answer, one line a dataset, and how far off an answer without context is."""
    lines = []
    for dataset, group in by_dataset(rows):
        figures = [interval_text(bootstrap.mean(column(group, name, key))) for key in _KEYS]
        nothing = mean(column(group, NO_CONTEXT, "mean_kl"))
        lines.append([dataset, len(group), *figures, _nll(group, name), nothing])
    headers = ["dataset", "n", "mean KL", "KL, first token", "top-1 agreement", "NLL - full", f"mean KL, {NO_CONTEXT}"]
    return markdown_table(headers, lines, digits=3)


def cost_in_words(rows: Sequence[Row], name: str, where: str) -> str:
    """What one way to answer costs on some records, in a sentence."""
    kl, first = (interval_text(bootstrap.mean(column(rows, name, key))) for key in _KEYS[:2])
    nothing = mean(column(rows, NO_CONTEXT, "mean_kl"))
    return (
        f"`{name}` costs {kl} nats of KL a token on {where} (n = {len(rows)}), {first} at the first token, and changes"
        f" the negative log-likelihood by {_nll(rows, name)}. An answer without any context is {nothing:.3f} away.\n"
    )


def interval_text(found: Interval, *, digits: int = 3, sign: bool = False) -> str:
    """`0.260 [0.190, 0.330]`."""
    # Adding 0 to what was rounded takes the sign off a zero.
    figures = (round(figure, digits) + 0.0 for figure in (found.value, found.low, found.high))
    value, low, high = (f"{figure:{'+' if sign else ''}.{digits}f}" for figure in figures)
    return f"{value} [{low}, {high}]"


def column(rows: Sequence[Row], name: str, key: str) -> list[float]:
    """One figure of one way to answer, a value a record."""
    return [float(row["rows"][name][key]) for row in rows]


def is_scored(rows: Sequence[Row], name: str) -> bool:
    """Whether that row's answers were written and scored."""
    return all(row["rows"][name]["score"] is not None for row in rows)


def _score(rows: Sequence[Row], name: str) -> str | None:
    if not (is_scored(rows, FULL) and is_scored(rows, name)):
        return None
    change = bootstrap.difference(column(rows, FULL, "score"), column(rows, name, "score"))
    return interval_text(change, digits=1, sign=True)


def _nll(rows: Sequence[Row], name: str) -> str:
    """Against the full prefill on the same ids."""
    return interval_text(bootstrap.difference(column(rows, name, "full_nll"), column(rows, name, "nll")), sign=True)
