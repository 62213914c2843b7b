"""The pictures of the reports, as PNG. Nothing here keeps state, and no display is needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

_SIZE = (8.0, 4.5)  # inches
_DPI = 120


def bar_plot(
    file: Path,
    labels: Sequence[str],
    series: Mapping[str, Sequence[float]],
    *,
    title: str,
    ylabel: str,
    log: bool = False,
) -> None:
    """One group of bars a label, one bar a series in it."""
    figure, axes = _figure(title, "", ylabel)
    width = 0.8 / max(len(series), 1)
    for number, (name, values) in enumerate(series.items()):
        shift = (number - (len(series) - 1) / 2) * width
        axes.bar([place + shift for place in range(len(labels))], values, width, label=name)
    axes.set_xticks(range(len(labels)), labels, rotation=30, ha="right")
    _save(figure, axes, file, log=log)


def line_plot(
    file: Path,
    series: Mapping[str, Sequence[tuple[float, float]]],
    *,
    title: str,
    xlabel: str,
    ylabel: str,
    log: bool = False,
) -> None:
    """One line a series, through its (x, y) points from left to right."""
    figure, axes = _figure(title, xlabel, ylabel)
    for name, points in series.items():
        ordered = sorted(points)
        axes.plot([x for x, _ in ordered], [y for _, y in ordered], marker="o", label=name)
    _save(figure, axes, file, log=log)


def scatter_plot(
    file: Path,
    points: Mapping[str, tuple[float, float]],
    *,
    title: str,
    xlabel: str,
    ylabel: str,
    log: bool = False,
) -> None:
    """One named point each, its name beside it."""
    figure, axes = _figure(title, xlabel, ylabel)
    for name, (x, y) in points.items():
        axes.scatter([x], [y])
        axes.annotate(name, (x, y), textcoords="offset points", xytext=(6, 4), fontsize=8)
    _save(figure, axes, file, log=log)


def _figure(title: str, xlabel: str, ylabel: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=_SIZE, dpi=_DPI, layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(title)
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    axes.grid(axis="y", alpha=0.3)
    return figure, axes


def _save(figure: Figure, axes: Axes, file: Path, *, log: bool) -> None:
    if log:
        axes.set_yscale("log")
    if axes.get_legend_handles_labels()[0]:
        axes.legend()
    figure.savefig(file, format="png")
