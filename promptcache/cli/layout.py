"""`promptcache layout`: a schema's elements, where they sit, and what they cost."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from promptcache.cli.console import print_json, reported, spinner, stdout_kept_clean
from promptcache.cli.elements import Element, elements_of
from promptcache.cli.options import DTYPE, ENCODING, LAYOUT, MODEL, Dtype, Encoding, Json, Layout, Model
from promptcache.cli.pace import encoding_estimate_ms
from promptcache.cli.session import open_engine

_PIPE_WIDTH = 200


def layout(
    schema: Annotated[Path, typer.Argument(metavar="SCHEMA.xml", show_default=False)],
    as_json: Json = False,
    model: Model = MODEL,
    dtype: Dtype = DTYPE,
    layout: Layout = LAYOUT,
    encoding: Encoding = ENCODING,
) -> None:
    """Show what a schema takes: tokens, positions, bytes, time to encode."""
    with reported(as_json=as_json), stdout_kept_clean():
        engine = open_engine(model, dtype=dtype, layout=layout, encoding=encoding)
        loaded = engine.load_schema(schema, encode=False)
        bytes_per_token = loaded.num_bytes // loaded.num_tokens if loaded.num_tokens else 0
        root = elements_of(loaded.layout, bytes_per_token)
        with spinner("timing the model"):
            estimate = encoding_estimate_ms(engine, loaded.pass_lengths)
    if as_json:
        print_json(
            {
                "schema": loaded.name,
                "layout": loaded.layout.policy,
                "encoding": loaded.layout.encoding,
                "num_positions": loaded.layout.num_positions,
                "num_tokens": loaded.num_tokens,
                "num_bytes": loaded.num_bytes,
                "encoding_estimate_ms": round(estimate, 1),
                "elements": [asdict(child) for child in root.children],
            }
        )
        return
    title = Text(loaded.name, style="bold")
    title.append(
        f"  {loaded.num_tokens} tokens stored, {loaded.layout.num_positions} positions, {_size(loaded.num_bytes)}, "
        f"about {estimate / 1000:.1f} s to encode ({loaded.layout.encoding}, {loaded.layout.policy})",
        style="not bold",
    )
    tree = Tree(title)
    _grow(tree, root)
    # Into a file or a pipe each element takes one line, however long.
    width = None if sys.stdout.isatty() else _PIPE_WIDTH
    Console(highlight=False, width=width).print(tree)


def _grow(tree: Tree, element: Element) -> None:
    for child in element.children:
        line = Text(child.kind, style="dim", no_wrap=True, overflow="ellipsis")
        line.append(f" {child.name}", style="bold" if child.kind == "module" else "not dim")
        end = f"-{child.end - 1}" if child.length > 1 else ""
        place = f"  {child.start}{end}" if child.length else f"  {child.start} (empty)"
        line.append(f"{place}  {child.num_tokens} tokens  {_size(child.num_bytes)}", style="not dim not bold")
        if child.note:
            line.append(f"  {child.note}", style="not dim italic")
        _grow(tree.add(line), child)


def _size(num_bytes: int) -> str:
    value = float(num_bytes)
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"
