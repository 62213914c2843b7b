"""`promptcache run`: answer a prompt."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from promptcache.cli.console import aside, print_json, reported, stdout_kept_clean
from promptcache.cli.options import (
    DTYPE,
    ENCODING,
    LAYOUT,
    MODEL,
    Dtype,
    Encoding,
    Json,
    Layout,
    Model,
    Repair,
    SchemaFiles,
    SchemaFolders,
    StoreFolder,
)
from promptcache.cli.reply import comparison, facts, speedup, statistics
from promptcache.cli.session import open_engine, ready_for
from promptcache.config import StoreConfig
from promptcache.pml import Prompt

if TYPE_CHECKING:
    from promptcache.engine import PromptCache
    from promptcache.runtime.reply.completion import Completion
    from promptcache.runtime.reply.generation import Generation


def run(
    prompt: Annotated[Path, typer.Argument(metavar="PROMPT.xml", show_default=False)],
    schema: SchemaFiles = None,
    schemas: SchemaFolders = None,
    no_reuse: Annotated[bool, typer.Option("--no-reuse", help="Compute every token: the baseline.")] = False,
    compare: Annotated[bool, typer.Option("--compare", help="Answer twice, with and without reuse.")] = False,
    as_json: Json = False,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Tokens of the answer at most.")] = 64,
    temperature: Annotated[float, typer.Option(min=0.0, help="0 is greedy.")] = 0.0,
    top_p: Annotated[float, typer.Option(help="Draw from the likeliest tokens that add up to this.")] = 1.0,
    top_k: Annotated[int, typer.Option(min=0, help="Draw from this many tokens; 0: all.")] = 0,
    repetition_penalty: Annotated[float, typer.Option(help="Above 1 makes seen tokens less likely.")] = 1.0,
    seed: Annotated[int | None, typer.Option(help="The same seed draws the same answer.", show_default=False)] = None,
    stop: Annotated[list[str] | None, typer.Option(help="End before this text. May be given several times.")] = None,
    model: Model = MODEL,
    dtype: Dtype = DTYPE,
    layout: Layout = LAYOUT,
    encoding: Encoding = ENCODING,
    store: StoreFolder = None,
    repair: Repair = None,
) -> None:
    """Answer a prompt. Its schema is looked for beside it, too."""
    if compare and no_reuse:
        raise typer.BadParameter("--compare and --no-reuse exclude each other")
    with reported(as_json=as_json):
        with stdout_kept_clean():
            config = StoreConfig(path=store)
            engine = ready_for(
                prompt,
                schema or [],
                schemas or [],
                lambda: open_engine(model, dtype=dtype, layout=layout, encoding=encoding, repair=repair, store=config),
                repair=repair,
                encode=not no_reuse,
            )
        ask = partial(
            engine.stream,
            prompt,
            max_new_tokens=max_new_tokens,
            temperature=temperature,
            top_p=top_p,
            top_k=top_k,
            repetition_penalty=repetition_penalty,
            seed=seed,
            stop=stop or (),
            repair=repair,
        )
        if compare:
            _compare(ask, engine, as_json)
        else:
            _answer(ask(reuse=not no_reuse), as_json)


def _answer(reply: Generation, as_json: bool) -> None:
    if as_json:
        print_json(facts(_finish(reply)))
        return
    for piece in reply:
        sys.stdout.write(piece)
        sys.stdout.flush()
    typer.echo()
    aside().print(statistics(reply.completion), markup=False)


def _compare(ask: Callable[..., Generation], engine: PromptCache, as_json: bool) -> None:
    with stdout_kept_clean():
        # The process's first pass takes longer than any other.
        engine.logits(Prompt(text="warm up"))
    baseline, reused = _finish(ask(reuse=False)), _finish(ask(reuse=True))
    if as_json:
        print_json({"reuse": facts(reused), "baseline": facts(baseline), "speedup": speedup(baseline, reused)})
    else:
        Console(highlight=False).print(comparison(reused, baseline))


def _finish(reply: Generation) -> Completion:
    """The completion, without showing the text as it comes."""
    with stdout_kept_clean():
        for _ in reply:
            pass
    return reply.completion
