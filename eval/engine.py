"""The engine under test."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

from eval.config import EvalConfig
from eval.hook import MeasurementError, TokenHook
from promptcache import PromptCache, Schema, StoreConfig
from promptcache.models.tokenizer import HFTokenizer
from promptcache.runtime.schemas import LoadedSchema

ENCODING, REPAIR = "isolated", "none"
"""The paper's way. Stated, so that another default does not change the rows' meaning."""

IN_MEMORY = StoreConfig(disk_bytes=0)
"""What an earlier run has stored would make encoding free."""


def open_engine(config: EvalConfig, *, encoding: str = ENCODING, repair: str = REPAIR) -> PromptCache:
    """The run's model in an engine. Raises ModelNotFoundError, RequestError."""
    with Console(file=sys.stderr).status(f"loading {config.model}"):
        return PromptCache.from_pretrained(
            config.model,
            dtype=config.dtype,
            device=config.device,
            encoding=encoding,
            repair=repair,
            store=IN_MEMORY,
        )


def max_positions(engine: PromptCache) -> int | None:
    """How many positions the model has, None where it does not say."""
    found: int | None = getattr(engine.model.config.get_text_config(), "max_position_embeddings", None)
    return found


def end_ids(engine: PromptCache) -> frozenset[int]:
    """Tokens at which the engine ends a reply, so that the stock side can end at the same."""
    found = set(HFTokenizer(engine.tokenizer).eos_ids)
    for config in (engine.model.generation_config, engine.model.config):
        ids = getattr(config, "eos_token_id", None)
        found |= set(ids) if isinstance(ids, list | tuple) else set() if ids is None else {int(ids)}
    return frozenset(found)


@contextmanager
def loaded(engine: PromptCache, schema: Schema, layout: str | None = None) -> Iterator[LoadedSchema]:
    """The schema, encoded on entry and forgotten at the end: states of a long record take hundreds of megabytes.

    Raises MeasurementError when its tokens were not all run.
    """
    # The first use of a layout may check the model with passes of its own, which are no part of encoding.
    engine.lay_out(schema, layout=layout)
    with TokenHook(engine.model) as hook:
        made = engine.load_schema(schema, layout=layout)
    try:
        if sum(hook.passes) != made.encoded_tokens or made.encoded_tokens < made.num_tokens:
            raise MeasurementError(
                f"schema {schema.name}: {made.num_tokens} tokens are stored, {made.encoded_tokens} were said to be"
                f" encoded and {sum(hook.passes)} were run",
                hint="its states were there before, so the time to encode it would be wrong",
            )
        yield made
    finally:
        engine.unload_schema(schema.name)
