"""The model, and contexts held in all the ways that are compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from eval.config import EvalConfig
from eval.engine import ENCODING, IN_MEMORY, REPAIR, end_ids, loaded, max_positions, open_engine
from eval.floor.grid import Variant
from eval.floor.our_side import OurSide
from eval.floor.question import LATER_TOKENS, Question
from eval.floor.stock_sides import Context
from eval.floor.text import Questions, split_evenly, texts
from eval.hook import MeasurementError
from eval.stock_model import StockModel
from promptcache import PromptCache, Schema
from promptcache.errors import PromptCacheError, RequestError


@dataclass(frozen=True)
class Held:
    """A context that is held by every variant but those in `skipped`, which says why not. `context` is the stock
    model's; its ids are those of the first variant."""

    ours: tuple[OurSide, ...]
    skipped: dict[str, str]
    context: Context


class Bench:
    """One model for all sides."""

    def __init__(self, config: EvalConfig) -> None:
        if config.device != "cpu":
            raise RequestError(f"{config.suite} runs on the CPU, not on {config.device}", hint="leave --device away")
        self.engine = open_engine(config)
        self.stock = StockModel(self.engine.model, end_ids(self.engine))
        self._seed = config.seed
        self._engines: dict[str | None, PromptCache] = {None: self.engine}

    def encode(self, text: str) -> list[int]:
        """Token ids of a text that stands alone."""
        ids: list[int] = self.engine.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        return ids

    def check_room(self, contexts: Sequence[int], fresh: int) -> None:
        """Raises RequestError when a context and a question do not fit the model."""
        limit, longest = max_positions(self.engine), max(contexts)
        if limit is not None and longest + fresh + LATER_TOKENS + 1 > limit:
            raise RequestError(
                f"a context of {longest} tokens and a question of {fresh} do not fit the model's {limit} positions",
                hint="give shorter ones in the options: {contexts: [...]}",
            )

    @contextmanager
    def hold(self, tokens: int, variants: Sequence[Variant]) -> Iterator[Held]:
        """The same number of tokens held in all these ways, forgotten at the end. Raises RequestError when no variant
        can hold it."""
        with ExitStack() as stack:
            ours: list[OurSide] = []
            skipped: dict[str, str] = {}
            for variant in variants:
                try:
                    ours.append(self._load(stack, tokens, variant))
                except MeasurementError:
                    raise
                except PromptCacheError as fault:
                    skipped[variant.name] = fault.message
            if not ours:
                raise RequestError(
                    f"nothing can hold {tokens} tokens: {'; '.join(skipped.values())}", hint="give other options"
                )
            plan = ours[0].plan("?")
            assert plan.position_ids == tuple(range(plan.num_tokens)), "a prompt with gaps is not the stock model's"
            reused = plan.token_ids[: plan.count("reused")]
            yield Held(tuple(ours), skipped, Context.of(self.engine.model, reused))

    def questions(self, held: Held, fresh: int) -> Iterator[Question]:
        """Ever new questions of so many tokens."""
        made = Questions(self.encode, fresh, self._seed)
        number = 0
        while True:
            yield held.ours[0].question(made.text(number))
            number += 1

    def _load(self, stack: ExitStack, tokens: int, variant: Variant) -> OurSide:
        if variant.path not in self._engines:
            prepack = variant.path == "prepacked"
            self._engines[variant.path] = PromptCache(
                self.engine.model,
                self.engine.tokenizer,
                encoding=ENCODING,
                repair=REPAIR,
                attention=None if prepack else variant.path,
                prepack=prepack,
                store=IN_MEMORY,
            )
        engine = self._engines[variant.path]
        sizes = split_evenly(tokens, variant.modules)
        parts = texts(sizes, lambda text: len(self.encode(text)), (self._seed, tokens))
        if len(set(parts)) < len(parts):
            # They would share their states, and the context would be shorter than it says.
            raise RequestError(
                f"{variant.modules} modules of {tokens} tokens together cannot all differ", hint="give fewer modules"
            )
        modules = {f"part{number}": text for number, text in enumerate(parts)}
        schema = Schema.from_modules(modules, name=f"floor-{tokens}-{variant.name}", separator="")
        return OurSide(engine, variant, stack.enter_context(loaded(engine, schema, variant.layout)))
