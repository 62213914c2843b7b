"""`promptcache store ls | stat | verify | prune | rm`: what lies in a store's folder."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from promptcache.cli.console import print_json, reported
from promptcache.cli.options import Json, StoreFolder
from promptcache.cli.session import disk_config
from promptcache.errors import StoreError

if TYPE_CHECKING:
    from promptcache.store.folder import Folder
    from promptcache.store.upkeep import Pruned

store = typer.Typer(help="Look at stored states, and tidy up.", no_args_is_help=True, rich_markup_mode=None)


@store.command()
def ls(store: StoreFolder = None, as_json: Json = False) -> None:
    """List stored schemas: for which model, their size, uses and age."""
    from promptcache.store.sizes import format_size
    from promptcache.store.upkeep import stored_schemas

    with _opened(store, as_json) as folder:
        found = stored_schemas(folder)
    if as_json:
        print_json([asdict(each) for each in found])
        return
    table = Table(box=None, pad_edge=False)
    for name in ("schema", "model", "layout", "encoding", "dtype", "codec"):
        table.add_column(name, overflow="fold")
    for name in ("tokens", "size", "uses", "age", "idle"):
        table.add_column(name, justify="right")
    for each in found:
        what = (each.schema, each.model, each.layout, each.encoding, each.dtype, each.codec)
        figures = (str(each.tokens), format_size(each.num_bytes), str(each.uses), _span(each.age), _span(each.idle))
        # Text, not str: brackets in a name are no markup.
        table.add_row(*(Text(cell) for cell in (*what, *figures)))
    Console(highlight=False).print(table)


@store.command()
def stat(store: StoreFolder = None, as_json: Json = False) -> None:
    """Sum up a store: files, bytes, and how much of it cannot be used."""
    from promptcache.store.sizes import format_size

    with _opened(store, as_json) as folder:
        files = folder.files()
    usable = [file for file in files if file.header is not None]
    facts = {
        "folder": str(folder.path),
        "files": len(files),
        "bytes": sum(file.num_bytes for file in files),
        "schemas": len({file.header.origin.schema for file in usable if file.header}),
        "models": len({file.header.origin.context.model for file in usable if file.header}),
        "uses": sum(file.uses for file in files),
        "damaged": sum(file.fault is not None and file.fault.damaged for file in files),
        "other_versions": sum(file.fault is not None and not file.fault.damaged for file in files),
    }
    if as_json:
        print_json(facts)
        return
    for name, value in facts.items():
        shown = format_size(value) if name == "bytes" and isinstance(value, int) else value
        typer.echo(f"{name.replace('_', ' ')}: {shown}")


@store.command()
def verify(
    store: StoreFolder = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the damaged ones.")] = False,
) -> None:
    """Read every byte and compare checksums. Exit code 1 where a file is damaged."""
    from promptcache.store.upkeep import verify

    with _opened(store) as folder:
        files = folder.files()
        faults = [(file.path, fault) for file in files if (fault := verify(file)) is not None]
        for path, fault in faults:
            if remove and fault.damaged:
                folder.remove(path.name)
    for path, fault in faults:
        typer.echo(f"{path}: {fault}")
    typer.echo(f"{len(files)} files, {len(faults)} cannot be used")
    if any(fault.damaged for _, fault in faults):
        raise typer.Exit(1)


@store.command()
def prune(
    store: StoreFolder = None,
    unused_for: Annotated[
        str | None, typer.Option(metavar="AGE", help='Also what was not used for so long, such as "30d" or "12h".')
    ] = None,
    max_size: Annotated[
        str | None, typer.Option(metavar="SIZE", help='Also the least recently used, until "20GiB" are left.')
    ] = None,
) -> None:
    """Remove what cannot be used: damaged files, those of other versions, what killed writers left."""
    from promptcache.store.sizes import parse_size
    from promptcache.store.upkeep import prune

    with _opened(store) as folder:
        limit = None if max_size is None else parse_size(max_size, "--max-size")
        _told(prune(folder, unused_for=None if unused_for is None else _seconds(unused_for), max_bytes=limit))


@store.command()
def rm(
    schemas: Annotated[list[str] | None, typer.Argument(metavar="SCHEMA...", show_default=False)] = None,
    store: StoreFolder = None,
    everything: Annotated[bool, typer.Option("--all", help="All files of the store.")] = False,
) -> None:
    """Remove stored schemas by name, for all models."""
    from promptcache.store.upkeep import remove_schemas, stored_schemas

    if everything == bool(schemas):
        raise typer.BadParameter("name schemas, or give --all")
    with _opened(store) as folder:
        known = {each.schema for each in stored_schemas(folder)}
        for name in schemas or ():
            if name not in known:
                raise StoreError(
                    f"no schema {name!r} is stored in {folder.path}",
                    hint=f"there are: {', '.join(sorted(known)) or 'none'}",
                )
        _told(remove_schemas(folder, schemas or None))


@contextlib.contextmanager
def _opened(named: Path | None, as_json: bool = False) -> Iterator[Folder]:
    """The folder, for the length of the block, whose faults are told to the user."""
    with reported(as_json=as_json):
        path = disk_config(named).path
        assert path is not None
        from promptcache.store.folder import Folder

        try:
            yield Folder(Path(path))
        except OSError as fault:
            raise StoreError(f"{path}: {fault}", hint="may you read and write there?") from fault


def _told(gone: Pruned) -> None:
    from promptcache.store.sizes import format_size

    typer.echo(f"{gone.files} files removed, {format_size(gone.num_bytes)}")


_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def _seconds(age: str) -> float:
    number, unit = age[:-1], age[-1:]
    if not number.isdecimal() or unit not in _UNITS:
        raise typer.BadParameter(f"{age!r} is no age; write 90s, 15m, 12h or 30d")
    return float(number) * _UNITS[unit]


def _span(seconds: float) -> str:
    """A length of time in its largest unit."""
    for unit, size in reversed(_UNITS.items()):
        if seconds >= size:
            return f"{seconds / size:.0f}{unit}"
    return "0s"
