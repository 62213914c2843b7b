"""An engine for the length of a command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from promptcache.cli.console import spinner, token_bar
from promptcache.config import StoreConfig, store_home
from promptcache.errors import RequestError

if TYPE_CHECKING:
    from promptcache.engine import PromptCache
    from promptcache.runtime.schemas import LoadedSchema


def store_config(folder: Path | None, *, codec: str = "none") -> StoreConfig:
    """The store in that folder, or in the default one; `path` is None where nothing is kept on disk."""
    return StoreConfig(path=folder or store_home(), codec=codec)


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
                repair="none" if repair is None else repair,
                store=store,
            )
        except RequestError as fault:
            raise typer.BadParameter(f"{fault.message}; {fault.hint}") from fault


def encode_schema(engine: PromptCache, path: Path) -> LoadedSchema:
    """Load a schema's file and encode all of it, with a bar."""
    with token_bar(f"encoding {path.name}") as progress:
        return engine.load_schema(path, replace=True, progress=progress)
