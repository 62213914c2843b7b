"""A model with random weights, made where it will run, and a tokenizer that needs no file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from promptcache.errors import RequestError

_FOLDER = Path(__file__).parent

_DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


def random_model(name: str, device: str, dtype: str, seed: int) -> Any:
    """A model of that shape (a file of this folder) in eval mode. What it says means nothing; what it costs is what a
    trained one costs.

    Raises RequestError for an unknown shape or dtype, or a device that there is not.
    """
    file = _FOLDER / f"{name}.json"
    if not file.is_file():
        known = ", ".join(sorted(path.stem for path in _FOLDER.glob("*.json")))
        raise RequestError(
            f"there is no shape {name!r} for a random model",
            hint=f"shapes are {known}; `--config eval/gpu.yaml` names one",
        )
    if dtype not in _DTYPES:
        raise RequestError(f"there is no dtype {dtype!r} for a random model", hint=f"one of {', '.join(_DTYPES)}")
    settings = json.loads(file.read_text(encoding="utf-8"))
    config = AutoConfig.for_model(settings.pop("model_type"), **settings)
    torch.manual_seed(seed)
    try:
        with torch.device(device):
            return AutoModelForCausalLM.from_config(config, dtype=_DTYPES[dtype]).eval()
    except (RuntimeError, AssertionError) as fault:
        if isinstance(fault, torch.OutOfMemoryError):
            raise RequestError(f"{name} in {dtype} does not fit on {device}", hint="use a larger GPU") from fault
        reason = str(fault).partition("\n")[0]
        raise RequestError(f"{name} cannot be made on {device!r}: {reason}", hint="such as cuda or cpu") from fault


def byte_tokenizer() -> PreTrainedTokenizerBase:
    """One token a byte, so that a text of ASCII has as many tokens as characters, wherever it is cut."""
    shown = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    names = {byte: chr(byte) for byte in shown}
    # Byte-level tokenizers write the bytes that cannot be shown as the letters from U+0100 on.
    names |= {byte: chr(0x100 + number) for number, byte in enumerate(set(range(256)) - set(shown))}
    core = Tokenizer(models.BPE(vocab={name: byte for byte, name in names.items()}, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens(["<unk>"])
    return PreTrainedTokenizerFast(tokenizer_object=core, clean_up_tokenization_spaces=False, unk_token="<unk>")
