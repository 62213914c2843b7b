"""A model's identity: what its configuration says and a sample of its weights."""

from __future__ import annotations

import struct
from hashlib import blake2b

import torch
from transformers import PreTrainedModel

_SAMPLES = 64


def model_fingerprint(model: PreTrainedModel) -> str:
    """Hex digest, equal across processes. Each parameter gives its name, shape, dtype and up to 64 evenly spread
    elements, so scaling or retraining any weight changes it."""
    digest = blake2b(digest_size=20)
    config = model.config.to_dict()
    for unstable in ("_name_or_path", "transformers_version", "_attn_implementation", "torch_dtype", "dtype"):
        config.pop(unstable, None)
    _feed(digest, repr(sorted((str(key), repr(value)) for key, value in config.items())))
    with torch.no_grad():
        for name, tensor in (*model.named_parameters(), *model.named_buffers()):
            flat = tensor.detach().reshape(-1)
            step = max(1, flat.numel() // _SAMPLES)
            sample = flat[::step][:_SAMPLES].to("cpu", torch.float64).tolist()
            _feed(digest, f"{name} {tuple(tensor.shape)} {tensor.dtype} {[value.hex() for value in sample]}")
    return digest.hexdigest()


def _feed(digest: blake2b, text: str) -> None:
    data = text.encode()
    digest.update(struct.pack("<Q", len(data)) + data)
