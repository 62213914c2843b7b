"""The report of the `memory` suite."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from eval.memory.shapes import ModelShape, known_shapes
from eval.plots import bar_plot
from eval.reports.run_facts import run_facts
from eval.results import RunFolder
from eval.table import markdown_table

_MODULE = 1024
"""Tokens of the module that the tables of models are for: MiB a module is then KiB a token."""

_HOW = (
    "The paper's table is 4 x layers x hidden size bytes a token: keys and values of two bytes a number, as many heads"
    " of them as of queries. Its MB are MiB. `as computed` is 2 x layers x heads of keys and values x head size x bytes"
    " a number, from the configuration and the dtype that each model publishes: models with grouped heads (one for"
    " several query heads) have that much less. `as kept` is what transformers keeps, and so what our store does: it"
    " repeats the heads of the large Falcons before it keeps them.\n"
)


def write_report(results: RunFolder, rows: Sequence[dict[str, Any]]) -> None:
    """report.md and memory.png."""
    shapes = known_shapes()
    paper = [shape for shape in shapes if shape.paper_mb is not None]
    others = [shape for shape in shapes if shape.paper_mb is None]
    sections = [
        "# Memory of stored states\n",
        run_facts(results, data=False),
        _HOW,
        "## The paper's models, MiB a token\n",
        _models(paper),
        *_notes(paper),
        "## Other models, MiB a token\n",
        _models(others),
        "## Stored by this run's model\n",
        _STORED,
        _stored(rows),
        *_differs(rows),
        "![memory](memory.png)\n",
    ]
    results.write_report("\n".join(sections))
    bars = {
        "the paper's formula": [shape.paper_bytes / 2**20 for shape in shapes],
        "as computed": [shape.num_bytes / 2**20 for shape in shapes],
    }
    names = [shape.name for shape in shapes]
    bar_plot(results.path / "memory.png", names, bars, title="States of a token", ylabel="MiB", log=True)


def _models(shapes: Sequence[ModelShape]) -> str:
    lines = [
        [
            shape.name,
            shape.num_layers,
            shape.hidden_size,
            f"{shape.num_kv_heads} x {shape.head_dim}",
            shape.dtype,
            shape.paper_mb,
            shape.paper_bytes / 2**20,
            shape.num_bytes / 2**20,
            shape.paper_bytes / shape.num_bytes,
            shape.kept_bytes / 2**20,
            shape.num_bytes * _MODULE / 2**20,
            shape.kept_bytes * _MODULE / 2**20,
            shape.source,
        ]
        for shape in shapes
    ]
    numbers = ("layers", "hidden size", "heads x size", "dtype", "the paper", "its formula", "as computed")
    module = (f"{_MODULE:,} tokens, computed", f"{_MODULE:,} tokens, kept")
    headers = ("model", *numbers, "formula / computed", "as kept", *module, "config.json of")
    return markdown_table(headers, lines, digits=3)


def _notes(shapes: Iterable[ModelShape]) -> Iterable[str]:
    notes = [f"- {shape.name}: {shape.note}.\n" for shape in shapes if shape.note]
    if notes:
        yield "".join(notes)


_STORED = (
    "`memory`: the store's own account, the sum over the tensors and the memory behind them, which the run found to be"
    " one number. `configuration`: `as computed` of above for this model and dtype. `codec's rule`: worked out from"
    " shapes; the run found the tensors on disk to take exactly that. Codecs change the form on disk only: `bf16` two"
    " bytes a number; `int8` one byte, and two ends of a range for each channel of 64 tokens' keys and for each token's"
    " values. A file has a head beside its tensors.\n"
)


def _stored(rows: Sequence[dict[str, Any]]) -> str:
    plain = {row["modules"]: row["disk_tensor_bytes"] for row in rows if row["codec"] == "none"}
    lines = [
        [
            row["codec"],
            row["modules"],
            row["tokens"],
            row["tensor_bytes"],
            row["config_bytes"],
            row["tensor_bytes"] // row["tokens"],
            row["codec_bytes"],
            row["disk_bytes"] - row["disk_tensor_bytes"],
            row["codec_bytes"] / plain[row["modules"]],
        ]
        for row in rows
    ]
    memory = ("memory, bytes", "configuration, bytes", "memory a token")
    disk = ("codec's rule = disk, bytes", "head, bytes", "disk / plain")
    return markdown_table(("codec", "modules", "tokens", *memory, *disk), lines, digits=3)


def _differs(rows: Sequence[dict[str, Any]]) -> Iterable[str]:
    """What is said where the configuration does not tell what is kept."""
    if any(row["tensor_bytes"] != row["config_bytes"] for row in rows):
        yield "This model keeps something else than its configuration says: see `as kept` above.\n"
