"""`promptcache check`: all faults of schemas and prompts, without running the model."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
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
    SchemaFiles,
    SchemaFolders,
)
from promptcache.cli.schema_files import find_schema, root_of
from promptcache.cli.session import open_engine
from promptcache.errors import ModelError, PromptCacheError
from promptcache.pml import Note, Schema, bind, read_prompt, read_schema

if TYPE_CHECKING:
    from promptcache.engine import PromptCache


def check(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Schemas and prompts.", show_default=False)],
    schema: SchemaFiles = None,
    schemas: SchemaFolders = None,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings are faults.")] = False,
    model: Model = MODEL,
    dtype: Dtype = DTYPE,
    layout: Layout = LAYOUT,
    encoding: Encoding = ENCODING,
) -> None:
    """Find all faults of schemas and prompts. One line each: file:line:col: message."""
    checker = _Checker(
        schema or [], schemas or [], lambda: open_engine(model, dtype=dtype, layout=layout, encoding=encoding)
    )
    with reported():
        for path in files:
            checker.check(path)
    for hint in checker.hints:
        typer.echo(f"hint: {hint}")
    aside().print(f"{len(files)} checked: {checker.num_faults} faults, {checker.num_warnings} warnings", markup=False)
    if checker.num_faults or (strict and checker.num_warnings):
        raise typer.Exit(1)


class _Checker:
    """Tells what it finds as it goes, each fault once: a schema may be listed and be named by many prompts."""

    def __init__(self, files: list[Path], folders: list[Path], make_engine: Callable[[], PromptCache]) -> None:
        self.hints: dict[str, None] = {}  # a set that keeps its order
        self.num_faults = self.num_warnings = 0
        self._files, self._folders = files, folders
        self._make_engine = make_engine
        self._schemas: dict[Path, Schema | None] = {}
        self._told: set[str] = set()

    @cached_property
    def engine(self) -> PromptCache:
        """Loaded for the first text that has no fault of its own."""
        return self._make_engine()

    def check(self, path: Path) -> None:
        if root_of(path)[0] == "prompt":
            self.prompt(path)
        else:
            self.schema(path)

    def schema(self, path: Path) -> Schema | None:
        """The schema, or None when it has faults."""
        key = path.resolve()
        if key not in self._schemas:
            self._schemas[key] = None
            with self.found_in(path):
                schema = read_schema(path)
                self.warn(path, self.engine.check(schema))
                self._schemas[key] = schema
        return self._schemas[key]

    def prompt(self, path: Path) -> None:
        with self.found_in(path):
            prompt = read_prompt(path)
            source = find_schema(prompt, path, self._files, self._folders)
            schema = self.schema(source) if source else None
            if source and not schema:
                return
            self.warn(path, bind(prompt, schema).notes)
            if schema:
                self.engine.load_schema(schema, encode=False, replace=True)
            self.warn(path, self.engine.check_prompt(prompt))

    @contextlib.contextmanager
    def found_in(self, path: Path) -> Iterator[None]:
        """Faults of the text in `path` are told; those of the model end the command."""
        try:
            yield
        except ModelError:
            raise
        except PromptCacheError as fault:
            for each in (fault, *fault.others):
                self.num_faults += self.tell(each.summary() if each.span else f"{path}:1:1: {each.message}")
                if each.hint:
                    self.hints[each.hint] = None

    def warn(self, path: Path, notes: Iterable[Note]) -> None:
        for note in sorted(notes, key=lambda note: (note.span.line, note.span.column) if note.span else (0, 0)):
            self.num_warnings += self.tell(f"{note.span or f'{path}:1:1'}: warning: {note.message}")

    def tell(self, line: str) -> bool:
        """Print a line unless it was printed before; whether it was new."""
        line = " ".join(line.splitlines())
        if new := line not in self._told:
            self._told.add(line)
            typer.echo(line)
        return new
