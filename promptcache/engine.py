"""The engine: schemas in, completions out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Unpack

import torch

from promptcache.config import DEFAULT_ENCODING, DEFAULT_REPAIR, StoreConfig
from promptcache.layout.borders import border_notes, prompt_border_notes
from promptcache.layout.encodings.encoding import encoding as find_encoding
from promptcache.layout.encodings.key import KeyContext
from promptcache.layout.layout import SchemaLayout
from promptcache.layout.plan import RequestPlan
from promptcache.layout.policies.policy import policy
from promptcache.models.adapter import ModelAdapter
from promptcache.models.fingerprint import with_files
from promptcache.models.loading import load_model
from promptcache.models.tokenizer import HFTokenizer
from promptcache.pml import Note, Prompt, bind
from promptcache.runtime.checks.allowed import Allowed
from promptcache.runtime.continuation import continuation_logits
from promptcache.runtime.conversation.chat import Chats
from promptcache.runtime.conversation.session import Session
from promptcache.runtime.encoder import ModuleEncoder
from promptcache.runtime.given import Messages, PromptLike, SchemaLike, as_prompt, as_schema, prefix_schema
from promptcache.runtime.prefix import Prefix
from promptcache.runtime.prepare import prepare
from promptcache.runtime.repair.base import RepairPolicy, repair_policy
from promptcache.runtime.repair.chosen import chosen_policy
from promptcache.runtime.reply.completion import Completion
from promptcache.runtime.reply.generation import Generation
from promptcache.runtime.reply.options import Sampling, SamplingOptions
from promptcache.runtime.requests import Requests
from promptcache.runtime.schemas import LoadedSchema, LoadedSchemas
from promptcache.runtime.settled import Planned
from promptcache.runtime.timing import Stopwatch
from promptcache.runtime.verify.verification import Verification
from promptcache.runtime.verify.verify import verify
from promptcache.store.opening import as_config, open_store


class PromptCache:
    """Answers prompts whose modules were run through the model before.

    `encoding` says what a module sees while it is encoded, `layout` where tokens sit (PML reference, sections 4 and 5).
    The model stays the caller's: nothing of it is changed but the attention function, which is plain sdpa outside our
    own calls. Safe to use from many threads.

    Method: Prompt Cache, Gim et al., MLSys 2024 (arXiv 2311.04934).
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        encoding: str = DEFAULT_ENCODING,
        layout: str = "reserved",
        attention: str | None = None,
        repair: str = DEFAULT_REPAIR,
        prepack: bool = False,
        chat_bytes: int = 1 << 30,
        store: StoreConfig | str | Path | None = None,
        model_files: Path | None = None,
        self_check: bool = True,
    ) -> None:
        """`model` and `tokenizer` are transformers objects. `attention` is `segments` (stored states are attended where
        they lie; the default where the model allows it) or `assembled` (they are copied together for each request).
        `repair` says which stored tokens a request computes again where neither the call nor the prompt says so:
        `none`, `full`, `link:8` (the first tokens behind every seam), `link:8:3` (fewer where the request would take
        more than so many times what it costs anyway), `within:1.5` (as many behind every seam as keep it within so many
        times), `query:0.1` (the share that matters most to the new text), `auto:0.3` (what a share of a full prefill's
        time allows), or several joined by `+`. Prompts that are exact without it pay nothing for it.
        `prepack` lays the linear layers' weights out once more for few rows: requests on a CPU are faster, for as much
        memory again. `chat_bytes` bounds what `chat` keeps.
        `store` says where states are kept: a folder, `off` (no disk), or a StoreConfig; by default in the cache folder.
        `model_files` is the folder that the model was loaded from, if it was: states are then bound to its files, too,
        so that a rewrite of any of them is noticed.
        `self_check`: before a layout is first used, a small prompt is run with reuse and in one pass, and a model that
        answers them differently is refused; once in a process for each model.

        Raises UnsupportedModelError, RequestError, StoreError.
        """
        find_encoding(encoding)
        self.model = model
        self.tokenizer = tokenizer
        self.encoding = encoding
        self.layout = layout
        self.repair = repair_policy(repair).name
        self._adapter = ModelAdapter(model, prepack=prepack)
        self._allowed = Allowed(self._adapter, attention, layout, self_check=self_check)
        self.attention = self._allowed.attention
        self._tokenizer = HFTokenizer(tokenizer)
        config = as_config(store)
        self.store = open_store(config, self._adapter.devices)
        self._context = KeyContext(
            model=with_files(self._adapter.fingerprint, model_files),
            tokenizer=self._tokenizer.fingerprint,
            dtype=str(self._adapter.dtype),
            codec=config.codec,
        )
        encoder = ModuleEncoder(self._adapter, self.store, self._context)
        self._schemas = LoadedSchemas(encoder)
        self._requests = Requests(self._adapter, self._tokenizer, encoder, self._context, self.attention, layout)
        self._chats = Chats(self._requests, chat_bytes)

    @classmethod
    def from_pretrained(
        cls,
        name: str | Path = "smollm2-135m",
        *,
        dtype: str = "float32",
        device: str | None = None,
        encoding: str = DEFAULT_ENCODING,
        layout: str = "reserved",
        attention: str | None = None,
        repair: str = DEFAULT_REPAIR,
        prepack: bool = False,
        chat_bytes: int = 1 << 30,
        store: StoreConfig | str | Path | None = None,
        self_check: bool = True,
    ) -> PromptCache:
        """An engine on a model by name: the default one, a local folder, or a Hub id. The rest is as in `PromptCache`.

        Raises ModelNotFoundError with all that was tried.
        """
        loaded = load_model(name, dtype=dtype, device=device)
        return cls(
            loaded.model,
            loaded.tokenizer,
            encoding=encoding,
            layout=layout,
            attention=attention,
            repair=repair,
            prepack=prepack,
            chat_bytes=chat_bytes,
            store=store,
            model_files=loaded.folder,
            self_check=self_check,
        )

    def lay_out(self, source: SchemaLike, *, layout: str | None = None) -> SchemaLayout:
        """Where a schema's tokens sit, without running the model or keeping anything. Raises PMLError, LayoutError,
        TurnError for its faults."""
        return self._allowed.policy(layout or self.layout).lay_out(
            as_schema(source),
            self._tokenizer,
            encoding=self.encoding,
            context=self._context,
            max_positions=self._adapter.max_positions,
        )

    def check(self, source: SchemaLike, *, layout: str | None = None) -> tuple[Note, ...]:
        """All warnings about a schema: those of its text, and the borders where this model's tokenizer would join what
        is tokenized apart. Raises as `lay_out`."""
        made = self.lay_out(source, layout=layout)
        return (*made.notes, *border_notes(made, self._tokenizer))

    def check_prompt(self, prompt: PromptLike) -> tuple[Note, ...]:
        """All warnings about a prompt to a loaded schema, borders as in `check` included. Raises as `plan`."""
        parsed, made, _ = self._read(prompt)
        self._requests.plan(parsed, made)
        bound = bind(parsed, made.schema if made else None)
        texts = policy(made.policy).texts(made, bound, self._tokenizer) if made else ()
        return (*bound.notes, *prompt_border_notes(texts, self._tokenizer))

    def load_schema(
        self,
        source: SchemaLike,
        *,
        layout: str | None = None,
        replace: bool = False,
        encode: bool = True,
        pin: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> LoadedSchema:
        """Encodes a schema, so that prompts can import its modules.

        `source`: a Schema, a function decorated with `schema`, a path to a file, or PML text. `replace` allows a name
        that is in use. With `encode` false each module is encoded by the first request that imports it.
        With `pin` its states stay in memory, whatever else needs room. `progress(done, total)` is called with tokens.
        Raises PMLError, LayoutError, TurnError for faults, RequestError for a name in use.
        """
        made = self.lay_out(source, layout=layout)
        return self._schemas.load(made, replace=replace, encode=encode, pin=pin, progress=progress)

    def unload_schema(self, name: str) -> None:
        """Forgets a schema, and frees the memory of states that no other schema shares; on disk they stay for the next
        time. Requests under way go on unharmed."""
        self._schemas.unload(name)

    @property
    def schemas(self) -> dict[str, LoadedSchema]:
        """The loaded schemas by name (a copy)."""
        return self._schemas.all()

    def generate(
        self, prompt: PromptLike, *, reuse: bool = True, repair: str | None = None, **options: Unpack[SamplingOptions]
    ) -> Completion:
        """Answers a prompt: a Prompt, a Path, or text; text that begins with `<prompt` is PML, other text is a plain
        prompt with no modules. `options` (see `Sampling`): max_new_tokens=64, temperature=0.0, top_p=1.0, top_k=0,
        repetition_penalty=1.0, seed=None, stop=(). With `reuse` false the same ids at the same positions are computed.
        `repair` is the policy for this call; without it the prompt's own, then the engine's.

        Raises PMLError, LayoutError, TurnError for faults of the prompt, RequestError for arguments out of range.
        """
        return self.stream(prompt, reuse=reuse, repair=repair, **options).finish()

    def stream(
        self, prompt: PromptLike, *, reuse: bool = True, repair: str | None = None, **options: Unpack[SamplingOptions]
    ) -> Generation:
        """As `generate`, piece by piece: iterate over the result; its `completion` is there at the end."""
        watch, sampling = Stopwatch(self._adapter.devices.wait), Sampling.of(options)
        return self._requests.generation(self._planned(prompt, reuse, repair), sampling, watch)

    def generate_batch(
        self,
        prompts: Sequence[PromptLike],
        *,
        max_batch: int = 32,
        reuse: bool = True,
        repair: str | None = None,
        each: Sequence[SamplingOptions] | None = None,
        **options: Unpack[SamplingOptions],
    ) -> list[Completion]:
        """Answers many prompts, each as `generate` would, up to `max_batch` in one pass, which attends what several
        import once; one that ends makes room for the next. `options` are for all, `each` has more for each prompt. On
        the assembled path they run one by one. Raises as `generate`, with the prompt's number, before anything runs,
        and BatchError at the end, which has the other replies, for those that failed later."""
        return self._requests.answers(
            prompts, lambda prompt: self._planned(prompt, reuse, repair), options, each, max_batch
        )

    def logits(self, prompt: PromptLike, *, reuse: bool = True, repair: str | None = None) -> torch.Tensor:
        """Logits of the first new token: float32 [vocab_size]."""
        return self._requests.assemble(self._planned(prompt, reuse, repair)).prefill()[-1]

    def continuation_logits(
        self, prompt: PromptLike, token_ids: Sequence[int], *, reuse: bool = True, repair: str | None = None
    ) -> torch.Tensor:
        """Logits that predict each token of a given continuation, the prompt and the tokens before it in view: float32
        [len(token_ids), vocab_size], in one pass. Row 0 is what `logits` gives. Raises RequestError for no tokens or
        unknown ids, LayoutError where the model has no positions left."""
        return continuation_logits(self._requests, self._planned(prompt, reuse, repair), token_ids)

    def plan(self, prompt: PromptLike, *, reuse: bool = True, repair: str | None = None) -> RequestPlan:
        """The prompt's token ids, positions and runs, without running the model: of repaired tokens it shows those that
        can be told without (not `query`'s)."""
        return self._requests.shown(self._planned(prompt, reuse, repair))

    def verify(
        self, prompt: PromptLike, *, answer: str | None = None, max_new_tokens: int = 16, repair: str | None = None
    ) -> Verification:
        """How far reuse is from a full prefill of this prompt, which modules that comes from, and what would mend it.

        Predictions are compared along `answer` (text behind the prompt), or along the greedy reply of up to
        `max_new_tokens` that the full prefill gives. It takes ten to fifteen full prefills' time. Raises as
        `generate`.
        """
        parsed, layout, policy = self._read(prompt, repair)
        return verify(self._requests, parsed, layout, policy, answer=answer, max_new_tokens=max_new_tokens)

    def prefix(self, start: str | Messages) -> Prefix:
        """One static text, or conversation, for many short suffixes; exact wherever it is split. It is a schema of one
        anonymous text: `unload_schema(prefix.schema.name)` forgets it."""
        return Prefix(self._requests, self.load_schema(prefix_schema(start)), start)

    def chat(self, messages: Messages, **options: Unpack[SamplingOptions]) -> Completion:
        """The reply to a conversation ({"role": ..., "content": ...}). What earlier calls computed of it is reused, to
        the token, and its states are kept for the next turn within `chat_bytes`; the least recently used go first."""
        return self.chat_stream(messages, **options).finish()

    def chat_stream(self, messages: Messages, **options: Unpack[SamplingOptions]) -> Generation:
        """As `chat`, piece by piece."""
        return self._chats.stream(messages, Sampling.of(options), Stopwatch(self._adapter.devices.wait))

    def session(self, prompt: PromptLike, *, repair: str | None = None) -> Session:
        """A conversation that goes on behind a prompt: `session.send("...")`. `repair` as in `generate`: each turn
        chooses anew."""
        return Session(self._requests, *self._read(prompt, repair))

    def prepare(self, prompt: PromptLike, *, copies: int = 1, repair: str | None = None) -> dict[str, Any]:
        """Keyword arguments for `model.generate`: the prompt's ids, mask and positions, and a private transformers
        cache with the states of all tokens but the last; `copies` rows of it for beams or return sequences.

        Assisted and prompt-lookup decoding feed the whole prompt again on top of a full cache, and give wrong text.
        """
        return prepare(self._requests, self._planned(prompt, True, repair), copies)

    def _planned(self, prompt: PromptLike, reuse: bool, repair: str | None = None) -> Planned:
        parsed, layout, policy = self._read(prompt, repair)
        return self._requests.planned(self._requests.plan(parsed, layout), layout, reuse=reuse, repair=policy)

    def _read(self, prompt: PromptLike, repair: str | None = None) -> tuple[Prompt, SchemaLayout | None, RepairPolicy]:
        parsed = as_prompt(prompt)
        layout = None if parsed.schema is None else self._schemas.find(parsed.schema, parsed.span).layout
        return parsed, layout, chosen_policy(parsed, repair, self.repair)
