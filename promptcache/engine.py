"""The engine: schemas in, completions out."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch

from promptcache.errors import PromptError, RequestError, UnsupportedModelError
from promptcache.layout.encoding import encoding as find_encoding
from promptcache.layout.key import KeyContext
from promptcache.layout.layout import SchemaLayout
from promptcache.layout.plain import plan_plain
from promptcache.layout.plan import RequestPlan
from promptcache.layout.policy import policy
from promptcache.models.adapter import ModelAdapter
from promptcache.models.loading import load_model
from promptcache.models.sampling import Sampler
from promptcache.models.tokenizer import HFTokenizer
from promptcache.pml import Prompt, Schema, bind, parse_prompt, parse_schema, read_prompt, read_schema
from promptcache.runtime.completion import Completion
from promptcache.runtime.encoder import ModuleEncoder
from promptcache.runtime.generation import Generation, Planned, assemble
from promptcache.runtime.loaded_schema import LoadedSchema
from promptcache.runtime.self_check import segments_path_is_right
from promptcache.runtime.timing import Stopwatch
from promptcache.store.host import HostStore

logger = logging.getLogger(__name__)

PromptLike = Prompt | Path | str
SchemaLike = Schema | Path | str


class PromptCache:
    """Answers prompts whose modules were run through the model before.

    `encoding` says what a module sees while it is encoded, `layout` where tokens sit (PML reference, sections 4 and 5).
    The model stays the caller's: nothing of it is changed. Safe to use from many threads.

    Method: Prompt Cache, Gim et al., MLSys 2024 (arXiv 2311.04934).
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        encoding: str = "isolated",
        layout: str = "reserved",
        attention: str | None = None,
    ) -> None:
        """`model` and `tokenizer` are transformers objects. `attention` is `segments` (stored states are attended where
        they lie; the default where the model allows it) or `assembled` (they are copied together for each request).

        Raises UnsupportedModelError, RequestError.
        """
        find_encoding(encoding)
        policy(layout)
        self.model = model
        self.tokenizer = tokenizer
        self.encoding = encoding
        self.layout = layout
        self._adapter = ModelAdapter(model)
        self.attention = self._choose_attention(attention)
        self._tokenizer = HFTokenizer(tokenizer)
        self._store = HostStore()
        self._encoder = ModuleEncoder(self._adapter, self._store)
        self._schemas: dict[str, LoadedSchema] = {}
        self._lock = threading.Lock()
        self._bytes_per_token = self._adapter.bytes_per_token  # also refuses what keeps no keys and values, at once
        self._context = KeyContext(
            model=self._adapter.fingerprint, tokenizer=self._tokenizer.fingerprint, dtype=str(self._adapter.dtype)
        )

    @classmethod
    def from_pretrained(
        cls,
        name: str | Path = "smollm2-135m",
        *,
        dtype: str = "float32",
        device: str | None = None,
        encoding: str = "isolated",
        layout: str = "reserved",
        attention: str | None = None,
    ) -> PromptCache:
        """An engine on a model by name: the default one, a local folder, or a Hub id.

        Raises ModelNotFoundError with all that was tried.
        """
        loaded = load_model(name, dtype=dtype, device=device)
        return cls(loaded.model, loaded.tokenizer, encoding=encoding, layout=layout, attention=attention)

    def lay_out(self, source: SchemaLike, *, layout: str | None = None) -> SchemaLayout:
        """Where a schema's tokens sit, without running the model or keeping anything."""
        return policy(layout or self.layout).lay_out(
            _schema(source),
            self._tokenizer,
            encoding=self.encoding,
            context=self._context,
            max_positions=self._adapter.max_positions,
        )

    def load_schema(
        self,
        source: SchemaLike,
        *,
        layout: str | None = None,
        replace: bool = False,
        encode: bool = True,
        progress: Callable[[int, int], None] | None = None,
    ) -> LoadedSchema:
        """Encodes a schema, so that prompts can import its modules.

        `source`: a Schema, a path to a file, or PML text. `replace` allows a name that is in use. With `encode` false
        each module is encoded by the first request that imports it. `progress(done, total)` is called with tokens.
        Raises PMLError, LayoutError, TurnError for faults, RequestError for a name in use.
        """
        made = self.lay_out(source, layout=layout)
        known = self._schemas.get(made.name)
        if known is not None and not replace:
            if known.layout == made:
                return known
            raise RequestError(
                f"a schema named {made.name!r} is loaded already",
                hint="unload it first, or pass replace=True",
            )
        watch = Stopwatch()
        encoded = self._encoder.encode(made, progress) if encode else 0
        schema = LoadedSchema(made, made.num_tokens * self._bytes_per_token, encoded, watch.lap() if encoded else 0.0)
        with self._lock:
            self._schemas[made.name] = schema
            if known is not None:
                self._discard(known)
        return schema

    def unload_schema(self, name: str) -> None:
        """Forgets a schema and the states that no other schema shares. Requests under way go on unharmed."""
        with self._lock:
            if name not in self._schemas:
                raise RequestError(f"no schema named {name!r} is loaded", hint=self._names_hint())
            self._discard(self._schemas.pop(name))

    @property
    def schemas(self) -> dict[str, LoadedSchema]:
        """The loaded schemas by name (a copy)."""
        with self._lock:
            return dict(self._schemas)

    def generate(
        self,
        prompt: PromptLike,
        *,
        max_new_tokens: int = 64,
        temperature: float = 0.0,
        top_p: float = 1.0,
        top_k: int = 0,
        repetition_penalty: float = 1.0,
        seed: int | None = None,
        stop: str | Iterable[str] = (),
        reuse: bool = True,
    ) -> Completion:
        """Answers a prompt: a Prompt, a Path, or text; text that begins with `<prompt` is PML, other text is a plain
        prompt with no modules. With `reuse` false the same ids at the same positions are all computed.

        Raises PMLError, LayoutError, TurnError for faults of the prompt, RequestError for arguments out of range.
        """
        generation = self.stream(
            prompt,
            max_new_tokens=max_new_tokens,
            temperature=temperature,
            top_p=top_p,
            top_k=top_k,
            repetition_penalty=repetition_penalty,
            seed=seed,
            stop=stop,
            reuse=reuse,
        )
        for _ in generation:
            pass
        return generation.completion

    def stream(
        self,
        prompt: PromptLike,
        *,
        max_new_tokens: int = 64,
        temperature: float = 0.0,
        top_p: float = 1.0,
        top_k: int = 0,
        repetition_penalty: float = 1.0,
        seed: int | None = None,
        stop: str | Iterable[str] = (),
        reuse: bool = True,
    ) -> Generation:
        """As `generate`, piece by piece: iterate over the result; its `completion` is there at the end."""
        watch = Stopwatch()
        if isinstance(max_new_tokens, bool) or not isinstance(max_new_tokens, int) or max_new_tokens < 1:
            raise RequestError(f"max_new_tokens={max_new_tokens!r} is out of range", hint="it must be 1 or more")
        sampler = Sampler(
            temperature=temperature, top_p=top_p, top_k=top_k, repetition_penalty=repetition_penalty, seed=seed
        )
        stops = (stop,) if isinstance(stop, str) else tuple(stop)
        if not all(isinstance(text, str) and text for text in stops):
            raise RequestError("a stop string is empty or no string", hint="give non-empty strings")
        planned = self._plan(prompt, reuse)
        return Generation(
            self._encoder, self._tokenizer, planned, sampler, watch, max_new_tokens=max_new_tokens, stop=stops
        )

    def logits(self, prompt: PromptLike, *, reuse: bool = True) -> torch.Tensor:
        """Logits of the first new token: float32 [vocab_size]."""
        cache, _ = assemble(self._encoder, self._plan(prompt, reuse), room=0)
        return cache.prefill()[-1]

    def plan(self, prompt: PromptLike, *, reuse: bool = True) -> RequestPlan:
        """The prompt's token ids, positions and runs, without running the model."""
        return self._plan(prompt, reuse).plan

    def _choose_attention(self, name: str | None) -> str:
        if name not in (None, "segments", "assembled"):
            raise RequestError(f"unknown attention {name!r}", hint="known are: assembled, segments")
        if name == "segments" and not self._adapter.attends_segments:
            raise UnsupportedModelError(
                f"{type(self.model).__name__} cannot attend segments where they lie", hint="use attention='assembled'"
            )
        if name is not None or not self._adapter.attends_segments:
            return name or "assembled"
        if segments_path_is_right(self._adapter):
            return "segments"
        logger.warning("%s fails the check of the segments path and takes the assembled one", type(self.model).__name__)
        return "assembled"

    def _plan(self, prompt: PromptLike, reuse: bool) -> Planned:
        parsed = _prompt(prompt)
        limit = self._adapter.max_positions
        if parsed.schema is None:
            bound = bind(parsed, None)
            plan, layout = plan_plain(bound, self._tokenizer, layout=self.layout, max_positions=limit), None
        else:
            layout = self._loaded(parsed).layout
            bound = bind(parsed, layout.schema)
            plan = policy(layout.policy).plan(layout, bound, self._tokenizer, max_positions=limit)
        if not plan.runs:
            raise RequestError("the prompt has no tokens", hint="import a module or add text")
        return Planned(plan, layout, self.attention) if reuse else Planned(plan.without_reuse(), None, self.attention)

    def _loaded(self, prompt: Prompt) -> LoadedSchema:
        with self._lock:
            if prompt.schema not in self._schemas:
                raise PromptError(
                    f"no schema named {prompt.schema!r} is loaded", hint=self._names_hint(), span=prompt.span
                )
            return self._schemas[prompt.schema]

    def _names_hint(self) -> str:
        return f"loaded are: {', '.join(sorted(self._schemas)) or 'none; call load_schema first'}"

    def _discard(self, schema: LoadedSchema) -> None:
        kept = {segment.key for other in self._schemas.values() for segment in other.layout.segments.values()}
        for segment in schema.layout.segments.values():
            if segment.key not in kept:
                self._store.discard(segment.key)


def _schema(source: SchemaLike) -> Schema:
    """A schema from what `load_schema` takes."""
    if isinstance(source, Schema):
        return source
    if isinstance(source, Path):
        return read_schema(source)
    return parse_schema(source) if source.lstrip().startswith("<") else read_schema(Path(source))


def _prompt(prompt: PromptLike) -> Prompt:
    """A prompt from what `generate` takes."""
    if isinstance(prompt, Prompt):
        return prompt
    if isinstance(prompt, Path):
        return read_prompt(prompt)
    return parse_prompt(prompt) if prompt.lstrip().startswith("<prompt") else Prompt(text=prompt)
