"""Our view of a causal language model: what the runtime asks of it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch
from transformers import PreTrainedModel

from promptcache.errors import RequestError, UnsupportedModelError
from promptcache.kv.block import KVBlock
from promptcache.kv.mask import visibility_mask
from promptcache.kv.rotation import Rotations
from promptcache.kv.segments import Segments
from promptcache.models import attention
from promptcache.models.attention import Watch, active, watched
from promptcache.models.cache import BufferCache, dynamic_cache
from promptcache.models.fingerprint import model_fingerprint
from promptcache.models.prepacked import prepacked
from promptcache.models.rotary import find_rotations
from promptcache.models.support import refuse_unsupported


class ModelAdapter:
    """Runs a stock transformers model over token ids at given positions.

    It never changes the model. Raises UnsupportedModelError for models whose states cannot be cut into modules.
    """

    def __init__(self, model: PreTrainedModel, *, prepack: bool = False) -> None:
        """`prepack`: see `prepacked`."""
        self.model = self._owners = model
        config = model.config.get_text_config()
        refuse_unsupported(model)
        self.num_layers = int(config.num_hidden_layers)
        self.max_positions: int | None = getattr(config, "max_position_embeddings", None)
        self.vocab_size = int(config.vocab_size)
        self.attends_segments = self._install_attention()
        if prepack:
            self.model = prepacked(model)
        self._shapes, self._devices = self._probe()

    def _install_attention(self) -> bool:
        """Puts our attention function in sdpa's place. Families that run eager only keep their own, and take the
        assembled path."""
        if self.model.config._attn_implementation not in ("sdpa", attention.NAME):
            return False
        attention.register()
        self.model.set_attn_implementation(attention.NAME)
        return True

    @property
    def device(self) -> torch.device:
        """Where token ids go."""
        return self.model.get_input_embeddings().weight.device  # type: ignore[return-value]

    @property
    def devices(self) -> tuple[torch.device, ...]:
        """Where each layer's states are."""
        return tuple(self._devices)

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the model's weights, and so of its keys and values."""
        return self.model.dtype

    @property
    def label(self) -> str:
        """What the model is called, for people."""
        return str(self.model.config._name_or_path or type(self.model).__name__)

    @cached_property
    def fingerprint(self) -> str:
        """Identity of weights and configuration."""
        return model_fingerprint(self._owners)

    def _probe(self) -> tuple[list[tuple[int, int, int]], list[torch.device]]:
        """(num_kv_heads, key dim, value dim) and device of each layer's states, as one token's pass produces them."""
        with torch.no_grad():
            token = torch.zeros((1, 1), dtype=torch.long, device=self.device)
            states = self.model(input_ids=token, use_cache=True).cache
        layers = [layer for layer in states.layers if getattr(layer, "keys", None) is not None]
        if len(layers) != self.num_layers:
            raise UnsupportedModelError(
                f"{type(self.model).__name__}: {self.num_layers - len(layers)} of its {self.num_layers} layers keep no "
                "keys and values of their own (recurrent, or shared with another layer)",
                hint="use a model in which every layer is attention with its own keys and values",
            )
        shapes = [(layer.keys.shape[1], layer.keys.shape[3], layer.values.shape[3]) for layer in layers]
        return shapes, [layer.keys.device for layer in layers]

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
        found: set[int] = set()
        for config in (self.model.generation_config, self.model.config):
            ids = getattr(config, "eos_token_id", None)
            found |= set(ids) if isinstance(ids, list | tuple) else set() if ids is None else {int(ids)}
        return frozenset(found)

    def new_cache(self, capacity: int) -> BufferCache:
        """An empty cache with room for `capacity` tokens."""
        return BufferCache(self._shapes, capacity, self.dtype, self._devices)

    def position_mask(self, positions: Sequence[int], key_positions: Sequence[int]) -> torch.Tensor:
        """Additive [1, 1, queries, keys] in the model's dtype: what is seen by position."""
        return visibility_mask(self._tensor(positions), self._tensor(key_positions), self.dtype)

    def forward(
        self,
        ids: Sequence[int],
        positions: Sequence[int],
        cache: BufferCache,
        mask: torch.Tensor | None,
        *,
        keep: int = 1,
    ) -> torch.Tensor:
        """Logits, float32 [keep, vocab_size] (keep 0: of all tokens), at ascending positions; states join the cache.

        `mask` is additive, [1, 1, len(ids), slots after the update]. None means that the cache is empty and the tokens
        see each other in order: the model's own causal path, as fast as the stock model. transformers reads gaps in
        positions as packed sequences only where it has no cache, and here it always has one.
        """
        assert mask is not None or cache.get_seq_length() == 0, "only an empty cache goes without a mask"
        return self._run(ids, positions, cache, mask, keep)

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
            return self._run(ids, positions, tail, None, keep)
        # A mask with four dimensions is passed on as it is, so none is built; our attention function does without.
        unused = torch.zeros((1, 1, 1, 1), dtype=self.dtype, device=self.device)
        with active(segments):
            return self._run(ids, positions, tail, unused, keep)

    def attention_mass(
        self, ids: Sequence[int], positions: Sequence[int], cache: BufferCache, mask: torch.Tensor, rows: Sequence[int]
    ) -> torch.Tensor:
        """As `forward`, for the attention of these rows alone: the weights that they give to each slot, summed over
        layers, heads and rows, float32 [slots after the update]."""
        if self.attends_segments:
            with watched(watch := Watch(rows)):
                self._run(ids, positions, cache, mask, 1)
            return torch.stack([mass.to(self.device) for mass in watch.layers]).sum(0)
        weights = self._output(ids, positions, cache, mask, 1, output_attentions=True).attentions
        chosen = torch.tensor(rows)
        return torch.stack([each[0][:, chosen].float().sum((0, 1)).to(self.device) for each in weights]).sum(0)

    def full_prefill(self, ids: Sequence[int], positions: Sequence[int]) -> torch.Tensor:
        """Logits of all tokens, float32 [len(ids), vocab_size]: one pass of the stock model under an explicit mask."""
        with torch.no_grad():
            places = self._tensor(positions)
            output = self.model(
                input_ids=self._tensor(ids)[None],
                position_ids=places[None],
                attention_mask=visibility_mask(places, places, self.dtype),
                use_cache=False,
            )
            return output.logits[0].float()  # type: ignore[no-any-return]

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
            "position_ids": self._tensor(positions)[None],
            "cache": dynamic_cache(kept, copies),
        }

    def _run(
        self,
        ids: Sequence[int],
        positions: Sequence[int],
        cache: BufferCache,
        mask: torch.Tensor | None,
        keep: int,
    ) -> torch.Tensor:
        with torch.no_grad():
            return self._output(ids, positions, cache, mask, keep).logits[0].float()  # type: ignore[no-any-return]

    def _output(
        self,
        ids: Sequence[int],
        positions: Sequence[int],
        cache: BufferCache,
        mask: torch.Tensor | None,
        keep: int,
        **more: Any,
    ) -> Any:
        if self.model.training:
            raise RequestError(
                "the model is in training mode, where dropout would enter stored states", hint="call model.eval()"
            )
        with torch.no_grad():
            return self.model(
                input_ids=self._tensor(ids)[None],
                position_ids=self._tensor(positions)[None],
                attention_mask=mask,
                cache=cache,
                use_cache=True,
                logits_to_keep=keep,
                **more,
            )

    def _tensor(self, numbers: Sequence[int]) -> torch.Tensor:
        return torch.tensor(numbers, dtype=torch.long, device=self.device)
