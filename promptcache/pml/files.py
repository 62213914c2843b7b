"""Files that hold PML, and files that a module's `src` names."""

from __future__ import annotations

from pathlib import Path

from promptcache.errors import PMLSyntaxError, SchemaError
from promptcache.pml.places import Places
from promptcache.source import Source, Span

_LARGEST = 10_000_000


def read_source(path: Path) -> Source:
    """A file's text. Raises PMLSyntaxError when there is none, or it is not UTF-8."""
    try:
        data = Path(path).read_bytes()
    except (OSError, ValueError) as error:
        raise PMLSyntaxError(f"{path} cannot be read: {_reason(error)}", hint="check the path") from None
    try:
        return Source(str(path), data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        readable = Source(str(path), data.decode("utf-8-sig", "replace"))
        before = data[: error.start].decode("utf-8-sig", "replace")
        raise PMLSyntaxError(
            f"the byte 0x{data[error.start]:02X} is not UTF-8",
            hint="save the file as UTF-8",
            span=Places(readable).span(len(before)),
        ) from None


def read_src(src: str, folder: Path | None, span: Span) -> str:
    """The text of a module's `src`, which lies inside the schema's own folder, links resolved.

    Raises SchemaError: no folder, outside of it, no plain file, not UTF-8, or larger than ten million bytes.
    """

    def fault(message: str, hint: str) -> SchemaError:
        return SchemaError(f'src="{src[:200]}" {message}', hint=hint, span=span)

    if folder is None:
        raise fault(
            "in a schema that is not read from a file", "load the schema from its file, or put the text into it"
        )
    try:
        root = folder.resolve(strict=True)
        path = (root / src).resolve()
        if not path.is_relative_to(root):
            raise fault("leaves the schema's folder", f"put the file into {folder}")
        size = path.stat().st_size
        if not path.is_file():
            raise fault("is no plain file", "name a text file")
        if size > _LARGEST:
            raise fault(f"is larger than {_LARGEST:,} bytes", "split it")
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise fault(f"is not UTF-8 (byte {error.start})", "save it as UTF-8") from None
    except (OSError, ValueError, RuntimeError) as error:
        raise fault(f"cannot be read: {_reason(error)}", f"paths start at {folder}") from None


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
