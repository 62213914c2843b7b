"""Our view of a causal language model: what the runtime asks of it."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from functools import cached_property
from inspect import signature
from typing import Any

import torch
from transformers import PreTrainedModel

from promptcache.errors import RequestError, UnsupportedModelError
from promptcache.kv.batch import BatchPass
from promptcache.kv.block import KVBlock
from promptcache.kv.devices import Devices
from promptcache.kv.mask import visibility_mask
from promptcache.kv.rotation import Rotations
from promptcache.kv.segments import Segments
from promptcache.kv.tails import Tails
from promptcache.models import attention
from promptcache.models.attention import Watch, active, watched
from promptcache.models.cache import BufferCache, TailsCache, dynamic_cache
from promptcache.models.fingerprint import model_fingerprint
from promptcache.models.linear import for_few_rows
from promptcache.models.rotary import find_rotations
from promptcache.models.support import find_eos_ids, find_max_positions, refuse_unsupported
from promptcache.models.windows import Mask, find_windows, mask_by_layer, refuse_untold_windows


class ModelAdapter:
    """Runs a stock transformers model over token ids at given positions.

    It never changes the model. Raises UnsupportedModelError for models whose states cannot be cut into modules.
    """

    def __init__(self, model: PreTrainedModel, *, prepack: bool = False) -> None:
        """`prepack`: see `for_few_rows`."""
        self.model = self._owners = model
        config = self._config = model.config.get_text_config()
        refuse_unsupported(model)
        self._takes_positions = "position_ids" in signature(type(model).forward).parameters
        self.num_layers = int(config.num_hidden_layers)
        self.max_positions = find_max_positions(config)
        self.vocab_size = int(config.vocab_size)
        self.windows = find_windows(config)
        """For each layer how many positions a token sees, itself included; None for all."""
        self._shapes, self._devices, self.dtype = self._probe()
        self.attends_segments = self._install_attention()
        self.model = for_few_rows(model, prepack=prepack)
        self.counts_slots = self._ignores_positions()
        """Whether the model takes a token's place in the cache for its position (ALiBi): tokens then enter it in order
        and without gaps, and a mask says nothing."""

    def _install_attention(self) -> bool:
        """Puts our attention function in sdpa's place. Families that run eager only, or that call sdpa by themselves,
        keep their own, and take the assembled path."""
        found = self.model.config._attn_implementation
        if found not in ("sdpa", attention.NAME):
            return False
        attention.register()
        self.model.set_attn_implementation(attention.NAME)
        with watched(watch := Watch([0])), contextlib.suppress(Exception):
            # What a family that does not ask for our function makes of its name may be anything.
            self._output([0, 0], [0, 1], self.new_cache(2), None, 1)
        if len(watch.layers) != self.num_layers:
            self.model.set_attn_implementation(found)
            return False
        refuse_untold_windows(self.model, watch.windows, self.windows)
        return True

    def _ignores_positions(self) -> bool:
        """Whether the last of three tokens predicts the same wherever the two before it stand."""
        last = min(self.max_positions or 100, 100) - 1
        ids = [each % self.vocab_size for each in (1, 2, 3)]
        near, far = (
            _logits(self._output(ids, places, self.new_cache(3), None, 1)) for places in ((0, 1, 2), (0, 1, last))
        )
        return last > 2 and torch.equal(near, far)

    @property
    def device(self) -> torch.device:
        """Where token ids go."""
        return self.model.get_input_embeddings().weight.device  # type: ignore[return-value]

    @cached_property
    def devices(self) -> Devices:
        """Where each layer's states are."""
        return Devices(self._devices)

    @property
    def has_windows(self) -> bool:
        """Whether some layer sees only so far back."""
        return any(window is not None for window in self.windows)

    @property
    def label(self) -> str:
        """What the model is called, for people."""
        return str(self.model.config._name_or_path or type(self.model).__name__)

    @cached_property
    def fingerprint(self) -> str:
        """Identity of weights and configuration."""
        return model_fingerprint(self._owners)

    def _probe(self) -> tuple[list[tuple[int, int, int]], list[torch.device], torch.dtype]:
        """(num_kv_heads, key dim, value dim) and device of each layer's states, and their dtype, as one token's pass
        produces them."""
        with torch.no_grad():
            token = torch.zeros((1, 1), dtype=torch.long, device=self.device)
            states = getattr(self.model(input_ids=token, use_cache=True), "cache", None)
        layers = [layer for layer in getattr(states, "layers", ()) if getattr(layer, "keys", None) is not None]
        if len(layers) != self.num_layers:
            raise UnsupportedModelError(
                f"{type(self.model).__name__}: {self.num_layers - len(layers)} of its {self.num_layers} layers keep no "
                "keys and values of their own (recurrent, or shared with another layer)",
                hint="use a model in which every layer is attention with its own keys and values",
            )
        shapes = [(layer.keys.shape[1], layer.keys.shape[3], layer.values.shape[3]) for layer in layers]
        return shapes, [layer.keys.device for layer in layers], layers[0].keys.dtype

    @cached_property
    def rotations(self) -> Rotations:
        """How each layer's keys turn with positions. Raises UnsupportedModelError where they cannot be moved."""

        def states(positions: Sequence[int]) -> KVBlock:
            cache = self.new_cache(len(positions))
            self.forward([(7919 * i + 13) % self.vocab_size for i in range(len(positions))], positions, cache, None)
            return cache.view(0, len(positions))

        return find_rotations(self.model, states, self.max_positions)

    @cached_property
    def bytes_per_token(self) -> int:
        """Bytes that one token's keys and values take over all layers."""
        size = torch.empty((), dtype=self.dtype).element_size()
        return sum(heads * (key_dim + value_dim) for heads, key_dim, value_dim in self._shapes) * size

    @cached_property
    def eos_ids(self) -> frozenset[int]:
        """Tokens that end a reply, by generation config and config."""
        return find_eos_ids(self.model)

    def new_cache(self, capacity: int) -> BufferCache:
        """An empty cache with room for `capacity` tokens."""
        return BufferCache(self._shapes, capacity, self.dtype, self._devices)

    def new_tails(self) -> Tails:
        """Empty tails for the rows of a batch."""
        return Tails(self._shapes, self.dtype, self.devices)

    def position_mask(
        self, positions: Sequence[int], key_positions: Sequence[int], among: torch.Tensor | None = None
    ) -> Mask:
        """What is seen by position, windows included: additive [1, 1, queries, keys] in the model's dtype, for each
        layer type where they differ. `among`: see `visibility_mask`."""
        queries, keys = self._tensor(positions), self._tensor(key_positions)

        def make(window: int | None) -> torch.Tensor:
            return visibility_mask(queries, keys, self.dtype, window, among)

        return mask_by_layer(self._config, self.windows, make)

    def forward(
        self,
        ids: Sequence[int],
        positions: Sequence[int],
        cache: BufferCache,
        mask: Mask | None,
        *,
        keep: int = 1,
        noise: float = 0.0,
    ) -> torch.Tensor:
        """Logits, float32 [keep, vocab_size] (keep 0: of all tokens), at ascending positions; states join the cache.

        `mask` is additive, over the slots after the update (see `position_mask`). None means that the tokens see each
        other in order, and those of the cache, which is empty unless the model counts slots: the model's own causal
        path, as fast as the stock model. transformers reads gaps in positions as packed sequences only where it has no
        cache, and here it always has one. With `noise` each number of the input embeddings is off by this share, up or
        down.
        """
        empty = cache.get_seq_length() == 0
        assert mask is None if self.counts_slots else mask is not None or empty, "only an empty cache has no mask"
        mask = self._own_mask(positions) if mask is None else mask
        return _logits(self._output(ids, positions, cache, mask, keep, **self._noisy(ids, noise)))

    def _noisy(self, ids: Sequence[int], noise: float) -> dict[str, Any]:
        if not noise:
            return {}
        with torch.no_grad():
            embeddings = self.model.get_input_embeddings()(self._tensor(ids)[None])
        ups = torch.arange(embeddings.numel(), device=embeddings.device).view(embeddings.shape) * 40503 % 7 % 2
        return {"input_ids": None, "inputs_embeds": embeddings * (1 + noise * (2 * ups - 1)).to(embeddings.dtype)}

    def _own_mask(self, positions: Sequence[int]) -> Mask | None:
        """For tokens alone. The model's own windows count slots, which are positions where there is no gap."""
        gaps = positions[-1] - positions[0] >= len(positions)
        return self.position_mask(positions, positions) if self.has_windows and gaps else None

    def forward_segments(
        self,
        ids: Sequence[int],
        positions: Sequence[int],
        tail: BufferCache,
        segments: Segments,
        *,
        keep: int = 1,
    ) -> torch.Tensor:
        """As `forward`, with stored segments attended where they lie and `tail` holding what the request computed."""
        if not segments.views and segments.mask is None and tail.get_seq_length() == 0:
            return _logits(self._output(ids, positions, tail, self._own_mask(positions), keep))
        with active(segments):
            return _logits(self._output(ids, positions, tail, self._unused_mask(), keep))

    def forward_batch(
        self, ids: Sequence[int], positions: Sequence[int], batch: BatchPass, keep: Sequence[int]
    ) -> torch.Tensor:
        """One pass over the tokens of many rows side by side, which see what `batch` says; their states join its tails,
        which were opened for them. Logits of the tokens `keep`, float32 [len(keep), vocab_size]."""
        cache, kept = TailsCache(batch.tails), self._tensor(keep)
        with active(batch):
            return _logits(self._output(ids, positions, cache, self._unused_mask(), kept))

    def _unused_mask(self) -> Mask:
        """A mask with four dimensions is passed on as it is, so none is built; our attention function does without."""
        return mask_by_layer(self._config, self.windows, lambda _: torch.zeros((1,) * 4).to(self.device, self.dtype))

    def attention_mass(
        self, ids: Sequence[int], positions: Sequence[int], cache: BufferCache, mask: Mask | None, rows: Sequence[int]
    ) -> torch.Tensor:
        """As `forward`, for the attention of these rows alone: the weights that they give to each slot, summed over
        layers, heads and rows, float32 [slots after the update]."""
        if self.attends_segments:
            with watched(watch := Watch(rows)):
                self._output(ids, positions, cache, mask, 1)
            return torch.stack([mass.to(self.device) for mass in watch.layers]).sum(0)
        weights = self._output(ids, positions, cache, mask, 1, output_attentions=True).attentions
        chosen = torch.tensor(rows)
        return torch.stack([each[0][:, chosen].float().sum((0, 1)).to(self.device) for each in weights]).sum(0)

    def segments_mass(
        self, ids: Sequence[int], positions: Sequence[int], tail: BufferCache, segments: Segments, rows: Sequence[int]
    ) -> torch.Tensor:
        """As `forward_segments`, for the attention of these rows alone: what `stored_mass` gives, summed over
        layers."""
        with watched(watch := Watch(rows)):
            self.forward_segments(ids, positions, tail, segments)
        return torch.stack([mass.to(self.device) for mass in watch.layers]).sum(0)

    def generate_arguments(
        self, ids: Sequence[int], positions: Sequence[int], blocks: Sequence[KVBlock], copies: int
    ) -> dict[str, Any]:
        """Keyword arguments for `model.generate` from a prompt's states; the last token's are left out, since
        `generate` runs at least one token."""
        last = blocks[-1]
        kept = [*blocks[:-1], last.part(0, last.seq_len - 1)]
        return {
            "input_ids": self._tensor(ids)[None],
            "attention_mask": torch.ones((1, len(ids)), dtype=torch.long, device=self.device),
            **self._places(positions),
            "cache": dynamic_cache(kept, copies),
            # MPT's configuration switches it off, and `generate` would then put the whole prompt behind the cache.
            "use_cache": True,
        }

    def _output(
        self,
        ids: Sequence[int],
        positions: Sequence[int],
        cache: BufferCache | TailsCache,
        mask: Mask | None,
        keep: int | torch.Tensor,
        **more: Any,
    ) -> Any:
        if self._owners.training:
            raise RequestError(
                "the model is in training mode, where dropout would enter stored states", hint="call model.eval()"
            )
        with torch.no_grad():
            return self.model(
                **{"input_ids": self._tensor(ids)[None], **more},
                attention_mask=mask,
                **self._places(positions),
                cache=cache,
                use_cache=True,
                logits_to_keep=keep,
            )

    def _places(self, positions: Sequence[int]) -> dict[str, torch.Tensor]:
        return {"position_ids": self._tensor(positions)[None]} if self._takes_positions else {}

    def _tensor(self, numbers: Sequence[int]) -> torch.Tensor:
        return torch.tensor(numbers, dtype=torch.long, device=self.device)


def _logits(output: Any) -> torch.Tensor:
    """Of the one row, float32."""
    return output.logits[0].float()  # type: ignore[no-any-return]
