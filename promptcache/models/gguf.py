"""A GGUF file read as a plain model and tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from gguf import GGUFReader
from tokenizers import pre_tokenizers
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils.quantization_config import GgufConfig

_DIGITS_APART = "smollm"
"""The value of `tokenizer.ggml.pre` that stands for: every digit by itself, then GPT-2's pattern."""


def read_gguf(path: Path) -> tuple[Any, Any]:
    """The file's model, in float32 and not packed, and its tokenizer. Takes tens of seconds; no network."""
    where: dict[str, Any] = {
        "pretrained_model_name_or_path": path.parent,
        "gguf_file": path.name,
        "local_files_only": True,
    }
    tokenizer: Any = AutoTokenizer.from_pretrained(**where)
    field = GGUFReader(path).get_field("tokenizer.ggml.pre")
    if field is not None and field.contents() == _DIGITS_APART:
        # transformers does not read this field; left so, "  1" becomes other tokens than the model was trained on.
        tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        )
    # By default the weights stay packed, and a packed model cannot be saved.
    model: Any = AutoModelForCausalLM.from_pretrained(
        **where, dtype=torch.float32, quantization_config=GgufConfig(dequantize=True)
    )
    return model.eval(), tokenizer
