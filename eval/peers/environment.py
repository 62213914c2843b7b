"""Where a peer's virtual environment lies."""

from __future__ import annotations

from pathlib import Path

from promptcache.config import cache_home


def environment_folder(package: str) -> Path:
    """The folder of that package's environment, which may not be there."""
    return cache_home() / "peers" / package


def environment_python(package: str) -> Path:
    """Its interpreter."""
    return environment_folder(package) / "bin" / "python"
