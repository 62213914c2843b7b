"""What a schema's states really take: by the store's account, by their tensors, and on disk."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch

from eval.floor.text import split_evenly, texts
from eval.hook import MeasurementError
from eval.memory.codec_bytes import CODEC_BYTES, LayerShape
from promptcache import PromptCache, Schema, StoreConfig
from promptcache.errors import RequestError
from promptcache.kv.block import KVBlock
from promptcache.models.loading import LoadedModel
from promptcache.store.folder import Folder


def measure(loaded: LoadedModel, codec: str, tokens: int, modules: int, seed: int, folder: Path) -> dict[str, Any]:
    """Bytes of so many tokens in so many modules, in memory and in a folder that is empty and is gone afterwards.

    Raises MeasurementError where two accounts differ that must not, RequestError for modules too short to differ.
    """
    shutil.rmtree(folder, ignore_errors=True)
    try:
        store = StoreConfig(path=folder, codec=codec)
        engine = PromptCache(loaded.model, loaded.tokenizer, store=store)
        schema = engine.load_schema(_schema(engine, tokens, modules, seed))
        blocks = list(engine.store.held().values())
        files = Folder(folder).files()
        return _checked(
            {
                "tokens": sum(block.seq_len for block in blocks),
                "schema_bytes": schema.num_bytes,
                "account_bytes": engine.store.num_bytes,
                "tensor_bytes": sum(block.num_bytes for block in blocks),
                "allocated_bytes": _allocated(blocks),
                "codec_bytes": sum(_by_codec(codec, block) for block in blocks),
                "disk_tensor_bytes": sum(file.header.data_bytes for file in files if file.header),
                "disk_bytes": sum(file.num_bytes for file in files),
            }
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _schema(engine: PromptCache, tokens: int, modules: int, seed: int) -> Schema:
    def count(text: str) -> int:
        return len(engine.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])

    parts = texts(split_evenly(tokens, modules), count, (seed, tokens))
    if len(set(parts)) < len(parts):
        # They would share their states.
        raise RequestError(
            f"{modules} modules of {tokens} tokens together cannot all differ", hint="give fewer modules"
        )
    return Schema.from_modules({f"part{i}": text for i, text in enumerate(parts)}, name="memory", separator="")


def _allocated(blocks: Iterable[KVBlock]) -> int:
    """Bytes of the memory behind the tensors, each piece once: a view keeps all of it alive."""
    storages = [tensor.untyped_storage() for block in blocks for tensor in (*block.keys, *block.values)]
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())


def _by_codec(codec: str, block: KVBlock) -> int:
    layers = zip(block.keys, block.values, strict=True)
    return sum(CODEC_BYTES[codec](_layer(keys, values)) for keys, values in layers)


def _layer(keys: torch.Tensor, values: torch.Tensor) -> LayerShape:
    heads, seq_len, key_dim = keys.shape
    return LayerShape(heads, seq_len, key_dim, values.shape[2], keys.element_size())


_EQUAL: Sequence[Sequence[str]] = (
    ("schema_bytes", "account_bytes", "tensor_bytes", "allocated_bytes"),
    ("codec_bytes", "disk_tensor_bytes"),
)


def _checked(found: dict[str, Any]) -> dict[str, Any]:
    for names in _EQUAL:
        if len({found[name] for name in names}) > 1:
            told = ", ".join(f"{name} {found[name]:,}" for name in names)
            raise MeasurementError(
                f"accounts of the same states differ: {told}",
                hint="one of them counts wrongly, so no figure of memory means anything",
            )
    return found
