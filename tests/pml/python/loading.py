"""Loads schema functions from source text, as a user's file would be."""

from __future__ import annotations

import importlib.util
import itertools
from pathlib import Path
from types import ModuleType

import promptcache

HEADER = """\
from __future__ import annotations
from typing import Annotated
from promptcache.pml.python import MaxTokens, assistant, schema, system, user
"""

# Imports promptcache without its top level, which loads torch: a new process is up in a tenth of the time.
WITHOUT_ENGINE = f"""\
import sys, types
sys.modules["promptcache"] = types.ModuleType("promptcache")
sys.modules["promptcache"].__path__ = [{str(Path(promptcache.__path__[0]))!r}]
"""

_numbers = itertools.count()


def load(folder: Path, source: str) -> ModuleType:
    """The module made of HEADER and `source`, from a file of its own."""
    path = folder / f"functions_{next(_numbers)}.py"
    path.write_text(HEADER + source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def marked_line(source: str) -> int:
    """The line of the file, from 1, that ends in `# here`."""
    lines = (HEADER + source).split("\n")
    return 1 + next(number for number, line in enumerate(lines) if line.endswith("# here"))
