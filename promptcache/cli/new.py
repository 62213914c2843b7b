"""`promptcache new`: a schema with one module a file, ready to edit."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Annotated
from xml.sax.saxutils import escape, quoteattr

import typer

from promptcache.cli.console import aside, reported
from promptcache.errors import RequestError
from promptcache.pml import parse_schema
from promptcache.pml.names import RESERVED
from promptcache.source import Source

_ILLEGAL = re.compile(r"[^A-Za-z0-9_.-]+")
_TEXT_SUFFIXES = (".txt", ".md")


class Turn(StrEnum):
    """The turn that holds a new schema's modules."""

    USER = "user"
    SYSTEM = "system"
    NONE = "none"


def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The schema's name; NAME.xml is written.")],
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Texts; each becomes a module.")],
    inline: Annotated[bool, typer.Option("--inline", help="Put the texts into the schema itself.")] = False,
    turn: Annotated[Turn, typer.Option("--turn", help="The turn that holds the modules.")] = Turn.USER,
    force: Annotated[bool, typer.Option("--force", help="Overwrite NAME.xml.")] = False,
) -> None:
    """Write a schema with one module a file."""
    target = Path(name.removesuffix(".xml") + ".xml")
    schema_name = target.name.removesuffix(".xml")
    with reported():
        if target.exists() and not force:
            raise RequestError(f"{target} is there already", hint="--force overwrites it")
        if any(target.resolve() == file.resolve() for file in files):
            raise RequestError(f"{target} would overwrite one of its own texts", hint="choose another name")
        modules = dict(zip(module_names(files), files, strict=True))
        write = _inline if inline else _linked
        text = _schema(schema_name, turn, (write(module, file, target.parent) for module, file in modules.items()))
        # Nothing is written that would not load: this also reads every src.
        parse_schema(Source(str(target), text), folder=target.parent)
        try:
            target.write_text(text, encoding="utf-8")
        except OSError as fault:
            raise RequestError(f"{target} cannot be written: {fault.strerror}", hint="name another place") from None
    aside().print(f"wrote {target}; a prompt that imports all of it:", markup=False)
    imports = "".join(f"<{module}/>" for module in modules)
    typer.echo(f'<prompt schema="{schema_name}">{imports}Your question</prompt>')


def module_names(files: Iterable[Path]) -> list[str]:
    """A legal name for each file, all different: the file's own, without .txt and .md."""
    names: list[str] = []
    for file in files:
        base = _ILLEGAL.sub("_", file.stem if file.suffix.lower() in _TEXT_SUFFIXES else file.name)
        if not re.match(r"[A-Za-z_]", base) or base in RESERVED:
            base = f"_{base}"
        name, number = base, 1
        while name in names:
            number += 1
            name = f"{base}-{number}"
        names.append(name)
    return names


def _schema(name: str, turn: Turn, modules: Iterable[str]) -> str:
    body = ["<!-- Text that stands here is part of every prompt. -->", *modules]
    if turn is not Turn.NONE:
        body = [f"<{turn}>", *body, f"</{turn}>"]
    return "\n".join([f"<schema name={quoteattr(name)}>", *body, "</schema>", ""])


def _linked(module: str, file: Path, folder: Path) -> str:
    if not file.is_file():
        raise RequestError(f"{file} is no file", hint="name text files")
    try:
        src = file.resolve().relative_to(folder.resolve()).as_posix()
    except ValueError:
        raise RequestError(
            f"{file} lies outside of {folder.resolve()}, the schema's folder",
            hint="write the schema into a folder above the file, or copy the text into it with --inline",
        ) from None
    return f"<module name={quoteattr(module)} src={quoteattr(src)}/>"


def _inline(module: str, file: Path, folder: Path) -> str:
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as fault:
        raise RequestError(f"{file} is not UTF-8 (byte {fault.start})", hint="save it as UTF-8") from None
    except OSError as fault:
        raise RequestError(f"{file} cannot be read: {fault.strerror}", hint="name text files") from None
    return f"<module name={quoteattr(module)}>\n{escape(text)}\n</module>"
