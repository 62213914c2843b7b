"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from promptcache.config import DEFAULT_ENCODING

Model = Annotated[str, typer.Option("--model", metavar="NAME", help="The default model, a folder, or a Hub id.")]
Dtype = Annotated[str, typer.Option("--dtype", help="float32, bfloat16, float16, or auto (as saved).")]
Layout = Annotated[str, typer.Option("--layout", help="Where tokens sit.")]
Encoding = Annotated[str, typer.Option("--encoding", help="What a module sees while it is encoded.")]
Repair = Annotated[
    str | None,
    typer.Option(
        "--repair",
        metavar="POLICY",
        help="Stored text to compute again: none, full, link:8:3, within:1.5, query:0.1, auto:0.3, or some with +.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
SchemaFolders = Annotated[
    list[Path] | None,
    typer.Option("--schemas", metavar="DIR", help="Look for schemas here, too. May be given several times."),
]
SchemaFiles = Annotated[
    list[Path] | None,
    typer.Option("--schema", metavar="FILE", help="A schema. May be given several times."),
]
StoreFolder = Annotated[
    Path | None,
    typer.Option("--store", metavar="DIR", help="Folder of stored states; PROMPTCACHE_STORE, or in the cache folder."),
]

MODEL, DTYPE, LAYOUT, ENCODING = "smollm2-135m", "float32", "reserved", DEFAULT_ENCODING
