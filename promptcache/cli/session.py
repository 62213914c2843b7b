"""An engine for the length of a command."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from promptcache.cli.console import spinner, token_bar
from promptcache.cli.schema_files import find_schema
from promptcache.config import DEFAULT_REPAIR, StoreConfig, store_home
from promptcache.errors import RequestError, StoreError
from promptcache.pml import read_prompt

if TYPE_CHECKING:
    from promptcache.engine import PromptCache
    from promptcache.runtime.schemas import LoadedSchema


def disk_config(folder: Path | None, codec: str = "none") -> StoreConfig:
    """The store in that folder, or in the default one. Raises StoreError where nothing is kept on disk."""
    home = store_home(folder)
    if home is None:
        raise StoreError(
            "there is no store", hint="name a folder with --store; `off`, here or in PROMPTCACHE_STORE, is none"
        )
    return StoreConfig(path=home, codec=codec)


def open_engine(
    model: str,
    *,
    dtype: str,
    layout: str,
    encoding: str,
    repair: str | None = None,
    store: StoreConfig | None = None,
) -> PromptCache:
    """The engine that the options ask for. Raises BadParameter for values there are not, ModelError for the model."""
    with spinner(f"loading {model}"):
        from promptcache.engine import PromptCache

        try:
            return PromptCache.from_pretrained(
                model,
                dtype=dtype,
                layout=layout,
                encoding=encoding,
                repair=DEFAULT_REPAIR if repair is None else repair,
                store=store,
            )
        except RequestError as fault:
            raise typer.BadParameter(f"{fault.message}; {fault.hint}") from fault


def ready_for(
    prompt: Path,
    files: Sequence[Path],
    folders: Sequence[Path],
    open_it: Callable[[], PromptCache],
    *,
    repair: str | None = None,
    encode: bool = True,
) -> PromptCache:
    """The engine that `open_it` opens, with the given schemas and that of the prompt's file. Faults of the prompt are
    told before anything that takes time: the model, then the encoding."""
    schema_file = find_schema(read_prompt(prompt), prompt, files, folders)
    engine = open_it()
    named = dict.fromkeys([*files, *([schema_file] if schema_file else [])])
    for path in named:
        engine.load_schema(path, encode=False)
    engine.plan(prompt, repair=repair)
    for path in named if encode else ():
        encode_schema(engine, path)
    return engine


def encode_schema(engine: PromptCache, path: Path) -> LoadedSchema:
    """Load a schema's file and encode all of it, with a bar."""
    with token_bar(f"encoding {path.name}") as progress:
        return engine.load_schema(path, replace=True, progress=progress)
