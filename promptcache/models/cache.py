"""The one file that knows transformers' cache API."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from transformers import Cache, DynamicCache
from transformers.cache_utils import CacheLayerMixin

from promptcache.kv.block import KVBlock
from promptcache.kv.memory import empty
from promptcache.kv.tails import Tails


class BufferLayer(CacheLayerMixin):  # type: ignore[no-untyped-call]
    """One layer's keys and values in a preallocated buffer, [1, num_kv_heads, capacity, head_dim].

    Slots fill from the front. `update` writes behind what is there, in place, and returns views of the filled part; a
    buffer that is full doubles.
    """

    is_sliding = False

    def __init__(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.keys, self.values = keys, values
        self.length = 0
        self.is_initialized = True

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Nothing to do: the buffers are there from the start."""

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Appends [1, num_kv_heads, new, head_dim] and returns all filled slots."""
        assert self.keys is not None and self.values is not None
        end = self.length + key_states.shape[-2]
        if end > self.keys.shape[-2]:
            self._grow(max(end, 2 * int(self.keys.shape[-2])))
        self.keys[:, :, self.length : end] = key_states
        self.values[:, :, self.length : end] = value_states
        self.length = end
        return self.keys[:, :, :end], self.values[:, :, :end]

    def _grow(self, capacity: int) -> None:
        assert self.keys is not None and self.values is not None
        for name, old in (("keys", self.keys), ("values", self.values)):
            new = old.new_empty((*old.shape[:2], capacity, old.shape[-1]))
            new[:, :, : self.length] = old[:, :, : self.length]
            setattr(self, name, new)

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """(keys after the update, offset of the first)."""
        return self.length + query_length, 0

    def get_seq_length(self) -> int:
        """Filled slots."""
        return self.length

    def get_max_length(self) -> int:
        """No maximum."""
        return -1


class BufferCache(Cache):
    """One request's cache: a `BufferLayer` for each layer of the model."""

    layers: list[BufferLayer]  # type: ignore[assignment]

    def __init__(
        self, shapes: list[tuple[int, int, int]], capacity: int, dtype: torch.dtype, devices: list[Any]
    ) -> None:
        """`shapes[layer]` is (num_kv_heads, key head_dim, value head_dim)."""
        rooms: dict[Any, Iterator[torch.Tensor]] = {}
        for device in set(devices):
            here = [shape for shape, each in zip(shapes, devices, strict=True) if each == device]
            sizes = [heads * capacity * dim for heads, *dims in here for dim in dims]
            rooms[device] = iter(torch.split(empty(sum(sizes), dtype, device), sizes))
        layers: list[Any] = []
        for (heads, key_dim, value_dim), device in zip(shapes, devices, strict=True):
            keys, values = next(rooms[device]), next(rooms[device])
            layers.append(
                BufferLayer(keys.view(1, heads, capacity, key_dim), values.view(1, heads, capacity, value_dim))
            )
        super().__init__(layers=layers)

    def extend(self, num_tokens: int) -> KVBlock:
        """Counts so many more slots as filled, for the caller to write to: views of the buffers, which have room."""
        start = self.layers[0].length
        for layer in self.layers:
            layer.length += num_tokens
        return self.view(start, start + num_tokens)

    def append(self, block: KVBlock) -> None:
        """Copies a block's states behind what is there."""
        for layer, key, value in zip(self.layers, block.keys, block.values, strict=True):
            layer.update(key[None], value[None])

    def rewind(self, length: int) -> None:
        """Forgets the slots from `length` on."""
        for layer in self.layers:
            assert 0 <= length <= layer.length, "a cache can only be made shorter"
            layer.length = length

    def view(self, start: int, end: int) -> KVBlock:
        """The slots `[start, end)`, views of the buffers."""
        assert all(0 <= start <= end <= layer.length for layer in self.layers)
        return KVBlock(
            tuple(layer.keys[0, :, start:end] for layer in self.layers if layer.keys is not None),
            tuple(layer.values[0, :, start:end] for layer in self.layers if layer.values is not None),
        )


class TailsLayer(CacheLayerMixin):
    """One layer of the tails of a batch. `update` writes each token's states behind its row's, and returns those that
    it was given: our attention function finds the rest in the tails."""

    is_sliding = False

    def __init__(self, tails: Tails, layer: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._tails, self._layer = tails, layer
        self.is_initialized = True

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Nothing to do: the tails make their own room."""

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Writes [1, num_kv_heads, tokens, head_dim]."""
        self._tails.write(self._layer, key_states, value_states)
        return key_states, value_states

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Of no use: every pass brings its mask."""
        return query_length, 0

    def get_seq_length(self) -> int:
        """Tokens of all rows, those of the pass under way included."""
        return self._tails.total

    def get_max_length(self) -> int:
        """No maximum."""
        return -1


class TailsCache(Cache):
    """The tails of a batch as the model's cache, all rows in one of its rows."""

    def __init__(self, tails: Tails) -> None:
        layers: list[Any] = [TailsLayer(tails, layer) for layer in range(len(tails.layers))]
        super().__init__(layers=layers)


def dynamic_cache(blocks: Sequence[KVBlock], copies: int) -> DynamicCache:
    """transformers' own cache with the tokens of these blocks side by side, copied, for `copies` rows."""
    cache = DynamicCache()
    whole = KVBlock.joined(blocks)
    for layer, (keys, values) in enumerate(zip(whole.keys, whole.values, strict=True)):
        cache.update(keys[None], values[None], layer)
    if copies > 1:
        cache.batch_repeat_interleave(copies)
    return cache
