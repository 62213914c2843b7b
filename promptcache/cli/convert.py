"""`promptcache convert`: have a model ready, so that the next command need not wait for it. Used by `make models`."""

from __future__ import annotations

import typer

from promptcache.cli.console import reported, spinner
from promptcache.cli.options import MODEL, Model


def convert(model: Model = MODEL) -> None:
    """Fetch and convert a model now."""
    with reported(), spinner(f"loading {model}"):
        from promptcache.models.loading import load_model

        source = load_model(model).source
    typer.echo(source)
