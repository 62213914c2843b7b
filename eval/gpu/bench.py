"""The model, and engines on it that keep modules on the device or in main memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from eval.config import EvalConfig
from eval.engine import ENCODING, REPAIR, loaded
from eval.floor.text import split_evenly, texts
from eval.gpu.clock import Clock
from eval.gpu.model import byte_tokenizer, random_model
from eval.gpu.settings import Settings
from eval.hook import MeasurementError
from eval.stock_model import StockModel
from eval.timed import OurSide, StockSide
from promptcache import Prompt, PromptCache, Schema, StoreConfig
from promptcache.errors import RequestError

PLACEMENTS = ("device", "host")
"""Where modules rest between requests."""

_ROOM = "1TiB"
"""No bound: what does not fit is told by the device itself."""


class Bench:
    """Everything that the steps share."""

    def __init__(self, config: EvalConfig, settings: Settings) -> None:
        """Makes the model. Raises RequestError where it has too few positions."""
        self.config, self.settings = config, settings
        self.model = random_model(config.model, config.device, config.dtype, config.seed)
        self.tokenizer = byte_tokenizer()
        self.stock = StockModel(self.model, ())
        self.on_cuda = self.model.device.type == "cuda"
        limit = self.model.config.max_position_embeddings
        if settings.longest > limit:
            raise RequestError(f"a prompt takes {settings.longest} positions and {config.model} has {limit}")

    def engine(self, placement: str) -> PromptCache:
        """A new engine that keeps modules there."""
        device_bytes = _ROOM if placement == "device" else 0
        store = StoreConfig(host_bytes=_ROOM, device_bytes=device_bytes, disk_bytes=0)
        return PromptCache(self.model, self.tokenizer, encoding=ENCODING, repair=REPAIR, store=store)

    def texts(self, sizes: Sequence[int]) -> list[str]:
        """Texts of these numbers of tokens, which are characters."""
        return texts(sizes, len, self.config.seed)

    def schema(self, found: Sequence[str]) -> Schema:
        """The schema `gpu`, with those texts as modules `m0`, `m1`, ..."""
        return Schema.from_modules({f"m{n}": text for n, text in enumerate(found)}, name="gpu", separator="")

    def question(self, number: int = 0) -> str:
        """New text, another for each number."""
        return texts([self.settings.fresh], len, ("question", self.config.seed, number))[0]

    def prompt(self, modules: int, number: int = 0) -> Prompt:
        """All of the modules and a question."""
        return Prompt(schema="gpu", imports=[f"m{n}" for n in range(modules)], text=self.question(number))

    def measure(self, tokens: int, placement: str, clock: Clock) -> dict[str, Any]:
        """Time to first token behind so many stored tokens, ours and the stock model's in turn, as often as was asked
        and as there is time for."""
        modules, fresh = self.settings.modules, self.settings.fresh
        engine = self.engine(placement)
        self._forget_peak()
        with loaded(engine, self.schema(self.texts(split_evenly(tokens, modules)))) as schema:
            ours = OurSide(engine, self.prompt(modules), schema)
            if (ours.plan.num_tokens, ours.computed) != (tokens + fresh, fresh):
                raise MeasurementError(f"{ours.plan.num_tokens} tokens, {ours.computed} to compute: not as asked")
            stock = StockSide(self.stock, engine, ours)
            for _ in range(self.config.warmup):
                ours.take()
                self.stock.prefill(ours.plan.token_ids)
            ours.forget()
            for number in range(self.config.repeats):
                started = clock.left()
                for side in (ours, stock) if number % 2 else (stock, ours):
                    side.take()
                if clock.left() < 2 * (started - clock.left()):
                    break
            locked = [block.keys[0].is_pinned() for block in engine.store.held().values()] if self.on_cuda else []
            return {
                "context": tokens,
                "placement": placement,
                "path": engine.attention,
                "locked": placement == "host" and bool(locked) and all(locked),
                "ours": ours.figures(),
                "stock": stock.figures(),
                "peak_bytes": torch.cuda.max_memory_allocated() if self.on_cuda else None,
            }

    def _forget_peak(self) -> None:
        if self.on_cuda:
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
