"""Where output goes: results to stdout, the rest to stderr."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from promptcache.errors import PromptCacheError


def aside() -> Console:
    """The console on stderr. Made anew each time: tests and callers may have put another stream there."""
    return Console(stderr=True, highlight=False, soft_wrap=True)


def print_json(value: Any) -> None:
    """One JSON object on one line, in ASCII, whatever the terminal can show."""
    typer.echo(json.dumps(value))


@contextlib.contextmanager
def reported(*, as_json: bool = False) -> Iterator[None]:
    """Tell the user about a fault and leave with exit code 1."""
    try:
        yield
    except PromptCacheError as fault:
        for each in (fault, *fault.others):
            aside().print(f"error: {each}", markup=False)
        if as_json:
            print_json({"error": _facts(fault), "others": [_facts(other) for other in fault.others]})
        raise typer.Exit(1) from None


def _facts(fault: PromptCacheError) -> dict[str, Any]:
    return {
        "kind": type(fault).__name__,
        "message": fault.message,
        "hint": fault.hint,
        "file": fault.file,
        "line": fault.line,
        "column": fault.column,
    }


@contextlib.contextmanager
def stdout_kept_clean() -> Iterator[None]:
    """What other code prints in here goes to stderr."""
    with contextlib.redirect_stdout(sys.stderr):
        yield


@contextlib.contextmanager
def spinner(what: str) -> Iterator[None]:
    """Show on a terminal that something takes time."""
    console = aside()
    if not console.is_terminal:
        yield
        return
    with console.status(what):
        yield


@contextlib.contextmanager
def token_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on a terminal's stderr that is told (tokens done, tokens in all)."""
    console = aside()
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
