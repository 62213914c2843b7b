"""A model's identity: what its configuration says, a sample of its weights, and the files that they came from."""

from __future__ import annotations

import os
import struct
from hashlib import blake2b
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel

from promptcache.errors import ModelError

_SAMPLES = 64
_SAMPLED_BYTES = 4096
_UNSTABLE = ("_name_or_path", "transformers_version", "_attn_implementation", "torch_dtype", "dtype")
_WEIGHTS = (".safetensors", ".bin", ".gguf", ".pt", ".json")


def model_fingerprint(model: PreTrainedModel) -> str:
    """Hex digest, equal across processes. Each parameter and buffer gives its name, shape, dtype and up to 64 evenly
    spread elements, so scaling or retraining any weight changes it; adapters give which of them are active, too."""
    digest = blake2b(digest_size=20)
    config = model.config.to_dict()
    for unstable in _UNSTABLE:
        config.pop(unstable, None)
    _feed(digest, repr(sorted((str(key), repr(value)) for key, value in config.items())))
    _feed(digest, repr(_adapters(model)))
    with torch.no_grad():
        for name, tensor in (*model.named_parameters(), *model.named_buffers()):
            flat = tensor.detach().reshape(-1)
            step = max(1, flat.numel() // _SAMPLES)
            sample = flat[::step][:_SAMPLES].to("cpu", torch.float64).tolist()
            _feed(digest, f"{name} {tuple(tensor.shape)} {tensor.dtype} {[value.hex() for value in sample]}")
    return digest.hexdigest()


def with_files(fingerprint: str, folder: Path | None) -> str:
    """The fingerprint of a model that was loaded from the files in a folder: of each one its name, size, time of
    writing, head and 64 evenly spread pieces. A rewrite in place is noticed, whichever numbers it changed.

    None leaves the fingerprint as it is. Raises ModelError where the files cannot be read.
    """
    if folder is None:
        return fingerprint
    digest = blake2b(digest_size=20)
    _feed(digest, fingerprint)
    try:
        for path in sorted(folder.iterdir()):
            if path.suffix in _WEIGHTS and path.is_file():
                _feed_file(digest, path)
    except OSError as fault:
        raise ModelError(f"the model's files in {folder} cannot be read: {fault}") from fault
    return digest.hexdigest()


def _adapters(model: PreTrainedModel) -> list[tuple[str, str]]:
    """Adapters (LoRA and its kin) by name, with their settings; those that are switched on come first."""
    settings: dict[str, Any] = getattr(model, "peft_config", None) or {}
    layers: list[Any] = [
        module for module in model.modules() if hasattr(module, "active_adapters") and module is not model
    ]
    active = {
        (str(name), str(getattr(layer, "scaling", {}).get(name)), bool(getattr(layer, "disable_adapters", False)))
        for layer in layers
        if not callable(layer.active_adapters)
        for name in layer.active_adapters
    }
    found = [(name, repr(sorted(map(repr, vars(config).items())))) for name, config in sorted(settings.items())]
    return [("active", repr(sorted(active))), *found]


def _feed_file(digest: blake2b, path: Path) -> None:
    with open(path, "rb") as file:
        stat = os.fstat(file.fileno())
        _feed(digest, f"{path.name} {stat.st_size} {stat.st_mtime_ns}")
        step = max(_SAMPLED_BYTES, stat.st_size // _SAMPLES)
        for start in range(0, stat.st_size, step):
            file.seek(start)
            digest.update(file.read(_SAMPLED_BYTES))


def _feed(digest: blake2b, text: str) -> None:
    data = text.encode()
    digest.update(struct.pack("<Q", len(data)) + data)
