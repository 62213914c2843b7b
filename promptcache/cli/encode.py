"""`promptcache encode`: schemas into a store, before anybody asks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from promptcache.cli.console import aside, reported
from promptcache.cli.options import (
    DTYPE,
    ENCODING,
    LAYOUT,
    MODEL,
    Dtype,
    Encoding,
    Layout,
    Model,
    StoreFolder,
)
from promptcache.cli.session import disk_config, encode_schema, open_engine
from promptcache.errors import ModelError, PromptCacheError, StoreError
from promptcache.pml import read_schema

if TYPE_CHECKING:
    from promptcache.engine import PromptCache


def encode(
    files: Annotated[list[Path], typer.Argument(metavar="SCHEMA.xml...", show_default=False)],
    store: StoreFolder = None,
    codec: Annotated[str, typer.Option("--codec", help="Form on disk: none, bf16 or int8.")] = "none",
    model: Model = MODEL,
    dtype: Dtype = DTYPE,
    layout: Layout = LAYOUT,
    encoding: Encoding = ENCODING,
) -> None:
    """Encode schemas into a store. What is stored already is skipped, so a run that was stopped goes on."""
    with reported():
        config = disk_config(store, codec)
        for path in files:
            read_schema(path)
        engine = open_engine(model, dtype=dtype, layout=layout, encoding=encoding, store=config)
    faults = 0
    for path in files:
        try:
            _encode(engine, path)
        except ModelError:
            raise
        except PromptCacheError as fault:
            aside().print(f"error: {fault}", markup=False)
            faults += 1
    if faults:
        raise typer.Exit(1)


def _encode(engine: PromptCache, path: Path) -> None:
    loaded = encode_schema(engine, path)
    lacking = loaded.keys - engine.store.kept(loaded.keys)
    engine.unload_schema(loaded.name)
    if lacking:
        raise StoreError(
            f"{path}: {len(lacking)} of {len(loaded.keys)} segments could not be stored",
            hint="the lines above say why; is there room in the folder, and in its budget?",
        )
    how = f"{loaded.encode_ms / 1000:.1f} s" if loaded.encoded_tokens else "stored already"
    typer.echo(f"{path}: {loaded.num_tokens} tokens, {how}")
