"""The command line: `promptcache run | check | layout | new | verify | encode | store`.

Exit codes: 0; 1 for a fault in what the user wrote or asked to load; 2 for wrong usage of the command itself.
Results go to stdout, everything else to stderr.
"""

from __future__ import annotations

import typer

from promptcache.cli.check import check
from promptcache.cli.convert import convert
from promptcache.cli.encode import encode
from promptcache.cli.layout import layout
from promptcache.cli.new import new
from promptcache.cli.run import run
from promptcache.cli.store import store
from promptcache.cli.verify import verify

__all__ = ["app"]

app = typer.Typer(
    name="promptcache",
    help="Answer prompts from the cached states of the modules that they import.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command(no_args_is_help=True)(run)
app.command(no_args_is_help=True)(check)
app.command(no_args_is_help=True)(layout)
app.command(no_args_is_help=True)(new)
app.command(no_args_is_help=True)(verify)
app.command(no_args_is_help=True)(encode)
app.add_typer(store, name="store")
app.command(hidden=True)(convert)
