"""Models by the numbers that decide how much their states take, from the `config.json` that each publishes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_FILE = Path(__file__).with_name("models.json")

_ITEM_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


@dataclass(frozen=True)
class ModelShape:
    """`source` is the Hub repository whose `config.json` has the numbers, `dtype` that of its published weights.
    `paper_mb` is the paper's figure, in MiB, where it has one. `kept_heads`: what transformers keeps of a token has so
    many heads, where it repeats the model's own before it keeps them."""

    name: str
    source: str
    num_layers: int
    hidden_size: int
    num_kv_heads: int
    head_dim: int
    dtype: str
    paper_mb: float | None = None
    kept_heads: int | None = None
    note: str | None = None

    @property
    def paper_bytes(self) -> int:
        """A token's states by the paper's formula: keys and values as wide as the model, of two bytes a number."""
        return 4 * self.num_layers * self.hidden_size

    @property
    def num_bytes(self) -> int:
        """A token's states as the model computes them: heads of keys and values only, in its own dtype."""
        return self._bytes(self.num_kv_heads)

    @property
    def kept_bytes(self) -> int:
        """A token's states as transformers, and so our store, keeps them."""
        return self._bytes(self.kept_heads or self.num_kv_heads)

    def _bytes(self, heads: int) -> int:
        return 2 * self.num_layers * heads * self.head_dim * _ITEM_BYTES[self.dtype]

    @classmethod
    def of(cls, config: Any, dtype: str) -> ModelShape:
        """From the configuration of a transformers model."""
        text = config.get_text_config()
        heads = int(text.num_attention_heads)
        return cls(
            name=str(config._name_or_path),
            source=str(config._name_or_path),
            num_layers=int(text.num_hidden_layers),
            hidden_size=int(text.hidden_size),
            num_kv_heads=_kv_heads(text, heads),
            head_dim=int(getattr(text, "head_dim", None) or text.hidden_size // heads),
            dtype=dtype,
        )


def _kv_heads(config: Any, heads: int) -> int:
    """Falcon has names of its own for what others call `num_key_value_heads`."""
    if getattr(config, "multi_query", False) and not getattr(config, "new_decoder_architecture", False):
        return 1
    found = (getattr(config, name, None) for name in ("num_key_value_heads", "num_kv_heads"))
    return next((int(number) for number in found if number), heads)


def known_shapes() -> list[ModelShape]:
    """The models of the paper's table in its order, then the others."""
    return [ModelShape(**row) for row in json.loads(_FILE.read_text(encoding="utf-8"))]
