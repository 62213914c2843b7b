"""`promptcache verify`: what reuse costs on one prompt, and what would mend it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from promptcache.cli.console import print_json, reported, spinner, stdout_kept_clean
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
from promptcache.cli.session import open_engine, ready_for
from promptcache.config import StoreConfig

if TYPE_CHECKING:
    from promptcache.runtime.verify.verification import Verification


def verify(
    prompt: Annotated[Path, typer.Argument(metavar="PROMPT.xml", show_default=False)],
    schema: SchemaFiles = None,
    schemas: SchemaFolders = None,
    answer: Annotated[
        str | None, typer.Option(help="Compare along this text; default: the full prefill's reply.", show_default=False)
    ] = None,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Tokens of the replies that are compared.")] = 16,
    as_json: Json = False,
    model: Model = MODEL,
    dtype: Dtype = DTYPE,
    layout: Layout = LAYOUT,
    encoding: Encoding = ENCODING,
    store: StoreFolder = None,
    repair: Repair = None,
) -> None:
    """Hold a prompt with reuse against its full prefill: module by module, and what would mend it."""
    with reported(as_json=as_json):
        with stdout_kept_clean():
            config = StoreConfig(path=store)
            engine = ready_for(
                prompt,
                schema or [],
                schemas or [],
                lambda: open_engine(model, dtype=dtype, layout=layout, encoding=encoding, repair=repair, store=config),
                repair=repair,
            )
            with spinner("comparing"):
                found = engine.verify(prompt, answer=answer, max_new_tokens=max_new_tokens, repair=repair)
        if as_json:
            leanings = [{**asdict(each), "leans": each.leans} for each in found.leanings]
            print_json({**asdict(found), "leanings": leanings, "recommendation": found.recommendation})
            return
        out = Console(highlight=False)
        for table in (_summary(found), _modules(found), _leanings(found), _remedies(found)):
            if table.row_count:
                out.print(table, markup=False)
        out.print(found.recommendation, markup=False)


def _summary(found: Verification) -> Table:
    table = Table("", "", show_header=False)
    table.add_row("encoding, layout, repair", f"{found.encoding}, {found.layout}, {found.repair}")
    table.add_row("prompt tokens, repaired", f"{found.prompt_tokens}, {found.repaired_tokens}")
    table.add_row("exact", "yes" if found.exact else "no")
    table.add_row("KL, first token / mean over the answer", f"{found.first_kl:.4f} / {found.mean_kl:.4f} nats")
    table.add_row("same likeliest first token", "yes" if found.top1 else "no")
    table.add_row("same greedy tokens", f"{found.agreement:.0%} of {found.greedy_tokens}")
    table.add_row("NLL of the answer, reuse / full", f"{found.nll:.4f} / {found.full_nll:.4f} nats a token")
    return table


def _modules(found: Verification) -> Table:
    table = Table("module", "tokens", "attention", "distance", "exact")
    for each in found.modules:
        exact = "yes" if each.exact else "no"
        table.add_row(each.path or "(schema)", str(each.tokens), f"{each.attention:.1%}", f"{each.distance:.1%}", exact)
    return table


def _leanings(found: Verification) -> Table:
    left_out = f"{found.pairs_left_out} pairs left out" if found.pairs_left_out else None
    table = Table("module", "behind", "easier to read, nats a token", "by chance", "leans", caption=left_out)
    for each in found.leanings:
        leans = "yes" if each.leans else "no"
        table.add_row(each.path, each.on, f"{each.gain:+.3f}", f"{each.control:.3f}", leans)
    return table


def _remedies(found: Verification) -> Table:
    table = Table("remedy", "KL left", "tokens repaired")
    for each in found.remedies:
        what = f"{each.repair}, scaffold {' '.join(each.scaffold)}" if each.scaffold else each.repair
        table.add_row(what, f"{each.mean_kl:.4f}", str(each.repaired_tokens))
    return table
