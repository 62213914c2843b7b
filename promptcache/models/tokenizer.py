"""Our view of a Hugging Face fast tokenizer: text to ids with nothing added, and the chat template's text cut up."""

from __future__ import annotations

import json
import re
import string
from collections.abc import Mapping, Sequence
from functools import cached_property
from hashlib import blake2b
from itertools import pairwise
from typing import Any

import jinja2
from tokenizers import Tokenizer as Backend
from transformers import PreTrainedTokenizerBase

from promptcache.errors import RequestError, TurnError, UnsupportedModelError
from promptcache.layout import conversation
from promptcache.layout.tokenizer import Piece

# White space as the tokenizers library counts it when a token swallows what stands beside it (Unicode White_Space);
# Python's \s also holds the four separators below.
_SWALLOWED = re.compile(r"\A[^\S\x1c-\x1f]+")

_BYTE_TOKEN = re.compile(r"<0x[0-9A-F]{2}>")

_PROBE_TURNS = (
    (("user", "a"), ("assistant", "a"), ("user", "a")),
    (("user", "a"), ("assistant", "a")),
    (("system", "a"), ("user", "a")),
)


class HFTokenizer:
    """The protocol `layout.tokenizer.Tokenizer` over a fast tokenizer of transformers.

    It works on copies of the backend, taken once: padding, truncation or special-token switches that the wrapped
    tokenizer is given, before or later and in any thread, neither change an id here nor clash with a call here.
    A *control* token is one that only the template may write: every added token flagged special, and every other added
    token that the template itself writes. Raises UnsupportedModelError for a tokenizer that has no such backend.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._wrapped = tokenizer
        self._spec = _read_backend(tokenizer)
        self._template = _read_template(tokenizer)
        self._names: dict[str, Any] = dict(tokenizer.special_tokens_map)
        self._added = {token["id"]: token for token in self._spec["added_tokens"]}
        self._full = _build(self._spec)
        self._unknown = {tokenizer.unk_token_id, self._model_unknown()}
        self._gaps = self._probe_template()
        self._control = self._find_control()
        self._others = self._added.keys() - self._control
        with_dummy = self._spec | {
            "added_tokens": [token | {"special": token["id"] in self._control} for token in self._spec["added_tokens"]]
        }
        without = _without_dummy(with_dummy)
        self._initial = _build(with_dummy, special_as_text=True)
        self._inner = self._initial if without == with_dummy else _build(without, special_as_text=True)
        self._dummy_behind: dict[int, bool] = {}
        self._bos_id = self._find_bos()
        self._eos_ids = self._find_eos()

    @cached_property
    def fingerprint(self) -> str:
        digest = blake2b(digest_size=16)
        for part in (self._spec, self._template, self._names):
            data = json.dumps(part, sort_keys=True, default=str).encode("utf-8", "surrogatepass")
            digest.update(len(data).to_bytes(8, "little") + data)
        return digest.hexdigest()

    @property
    def bos_id(self) -> int | None:
        return self._bos_id

    @property
    def placeholder_id(self) -> int:
        wrapped = self._wrapped
        candidates = (wrapped.unk_token_id, wrapped.pad_token_id, wrapped.eos_token_id, 0)
        return int(next(id for id in candidates if id is not None))

    @property
    def has_template(self) -> bool:
        return self._template is not None

    @property
    def special_ids(self) -> frozenset[int]:
        return self._control

    @property
    def eos_ids(self) -> frozenset[int]:
        return self._eos_ids

    def encode(self, text: str, *, behind: int | None, start: bool) -> tuple[int, ...]:
        if behind is not None and self._added.get(behind, {}).get("rstrip"):
            text = _SWALLOWED.sub("", text, count=1)
        if not text:
            return ()
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise RequestError(
                f"the text holds a lone surrogate, {text[error.start]!r}, at index {error.start}: not Unicode text",
                hint="decode the text with the encoding that it was written in",
            ) from None
        return tuple(self._encode(text, start or (behind is not None and self._puts_dummy_behind(behind))))

    def split(self, rendered: str) -> tuple[Piece, ...]:
        pieces: list[Piece] = []
        end = 0
        encoding = self._full.encode(rendered, add_special_tokens=False)
        for id, (first, last) in zip(encoding.ids, encoding.offsets, strict=True):
            if self._is_control(id, rendered[first:last]):
                if end < first:
                    pieces.append(rendered[end:first])
                pieces.append(id)
                end = last
        if end < len(rendered):
            pieces.append(rendered[end:])
        return tuple(pieces)

    def render(self, turns: Sequence[tuple[str, str]], *, open_assistant: bool) -> str:
        return self._render(turns, open_assistant, self._names)

    def decode(self, ids: Sequence[int]) -> str:
        return str(self._full.decode(list(ids), skip_special_tokens=True))

    def _render(self, turns: Sequence[tuple[str, str]], open_assistant: bool, names: Mapping[str, Any]) -> str:
        if self._template is None:
            raise TurnError(
                "this model has no chat template, so it has no turns",
                hint="leave out the role tags (plain text), or give the tokenizer a chat_template",
            )
        try:
            rendered = self._wrapped.apply_chat_template(
                [{"role": role, "content": content} for role, content in turns],
                tokenize=False,
                add_generation_prompt=open_assistant,
                chat_template=self._template,
                **names,
            )
        except Exception as error:  # a template is a program that came with the model: it can fail in any way
            roles = ", ".join(role for role, _ in turns) or "none"
            raise TurnError(
                f"the model's chat template refuses these turns ({roles}): {error}",
                hint="change the order or the roles of the turns to what the template allows",
            ) from error
        return str(rendered)

    def _encode(self, text: str, dummy: bool) -> list[int]:
        """Ids of a text that is not empty, with the dummy space in front where the tokenizer has one, or without."""
        encoding = (self._initial if dummy else self._inner).encode(text, add_special_tokens=False)
        ids: list[int] = encoding.ids
        if self._added.keys().isdisjoint(ids):
            return ids
        tokens = list(zip(ids, encoding.offsets, strict=True))
        if not dummy:
            tokens = self._restore_later_dummies(text, tokens)
        cuts = []
        for id, (first, last) in tokens:
            if self._is_control(id, text[first:last]):
                if last - first < 2:
                    raise RequestError(
                        f"this model's tokenizer has no way to write {text[first:last]!r} as text: "
                        f"it always becomes the special token {self._added[id]['content']!r}",
                        hint="take it out of the text",
                    )
                cuts.append(first + 1)
        if not cuts:
            return [id for id, _ in tokens]
        parts = [text[first:last] for first, last in pairwise([0, *cuts, len(text)])]
        return [id for n, part in enumerate(parts) for id in self._encode(part, dummy and n == 0)]

    def _restore_later_dummies(
        self, text: str, tokens: list[tuple[int, tuple[int, int]]]
    ) -> list[tuple[int, tuple[int, int]]]:
        """Some tokenizers put a dummy space behind each added token: only the one at the text's start is not wanted."""
        at = next((n for n, (id, _) in enumerate(tokens) if id in self._others), None)
        if at is None or self._inner is self._initial:
            return tokens
        encoding = self._initial.encode(text, add_special_tokens=False)
        whole = list(zip(encoding.ids, encoding.offsets, strict=True))
        return tokens[:at] + whole[whole.index(tokens[at]) :] if tokens[at] in whole else tokens

    def _is_control(self, id: int, surface: str) -> bool:
        """Whether `surface` became a control token. The unknown token is none where it stands for unknown text."""
        return id in self._control and (id not in self._unknown or surface.strip() == self._added[id]["content"])

    def _puts_dummy_behind(self, special: int) -> bool:
        known = self._dummy_behind.get(special)
        if known is None:
            known = self._dummy_behind[special] = self._probe_dummy_behind(special)
        return known

    def _probe_dummy_behind(self, special: int) -> bool:
        if special not in self._control or self._inner is self._initial:
            return False
        for probe in string.ascii_letters + string.digits:
            with_dummy = self._initial.encode(probe, add_special_tokens=False).ids
            without = self._inner.encode(probe, add_special_tokens=False).ids
            found = self._full.encode(self._added[special]["content"] + probe, add_special_tokens=False).ids
            if with_dummy != without and found[1:] in (with_dummy, without):
                return bool(found[1:] == with_dummy)
        return False

    def _model_unknown(self) -> int | None:
        model = self._spec["model"]
        if (id := model.get("unk_id")) is not None:
            return int(id)
        name = model.get("unk_token")
        return None if name is None else self._full.token_to_id(name)

    def _probe_template(self) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
        """Roles of small conversations that the template allows, and the gaps that it writes around their contents."""
        probes = []
        for turns in _PROBE_TURNS if self.has_template else ():
            try:
                gaps = conversation.render(self, turns, open_assistant=turns[-1][0] == "user").gaps
            except TurnError:
                continue
            probes.append((tuple(role for role, _ in turns), gaps))
        return probes

    def _find_control(self) -> frozenset[int]:
        written = _literals(self._template or "")
        seen = {
            id for _, gaps in self._gaps for gap in gaps for id in self._full.encode(gap, add_special_tokens=False).ids
        }
        control = set()
        for id, token in self._added.items():
            content = token["content"]
            # White space that happens to be an added token (Gemma's line breaks) is text, whoever writes it; a byte
            # token that is flagged special is how the model spells unknown characters.
            text = not content.strip() or _BYTE_TOKEN.fullmatch(content)
            if not text and (token["special"] or id in seen or any(content in literal for literal in written)):
                control.add(id)
        return frozenset(control)

    def _find_bos(self) -> int | None:
        backend = _build(self._spec, post_processor=self._spec["post_processor"])
        encoding = backend.encode("a")
        mask = encoding.special_tokens_mask
        prefix = encoding.ids[: mask.index(0) if 0 in mask else 0]
        if len(prefix) > 1:
            raise UnsupportedModelError(
                f"this tokenizer puts several tokens before every text ({backend.decode(prefix, False)!r})",
                hint="a tokenizer that adds one BOS token, or none, works",
            )
        return int(prefix[0]) if prefix else self._find_written_bos()

    def _find_written_bos(self) -> int | None:
        """The named BOS, where the template opens the conversation with it.

        A template that opens every turn with that token uses it as a role marker (SmolLM2), not as a BOS, unless it
        asks for it by name: then it follows the name when another is given.
        """
        named = self._wrapped.bos_token_id
        for roles, gaps in self._gaps:
            if not (opening := self.split(gaps[0])) or opening[0] != named:
                continue
            other = "zqbosqz"
            turns = [(role, "a") for role in roles]
            by_name = self._render(turns, False, self._names | {"bos_token": other}).startswith(other)
            if by_name or sum(self.split(gap).count(opening[0]) for gap in gaps) == 1:
                return int(named)
            return None
        return None

    def _find_eos(self) -> frozenset[int]:
        ends = {self._wrapped.eos_token_id}
        for roles, gaps in reversed(self._gaps):
            # The gap behind an assistant turn that closes the conversation, else the one before the next turn.
            if "assistant" in roles:
                behind = self.split(gaps[roles.index("assistant") + 1])
                ends.update([piece for piece in behind if isinstance(piece, int)][:1])
                if any(isinstance(piece, int) for piece in behind):
                    break
        return frozenset(int(id) for id in ends if id is not None)


def _read_backend(tokenizer: PreTrainedTokenizerBase) -> dict[str, Any]:
    """The backend as JSON, without the state that calls leave in it (padding, truncation)."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if not isinstance(backend, Backend):
        raise UnsupportedModelError(
            f"{type(tokenizer).__name__} is not a fast tokenizer: its rules cannot be read, "
            "so text cannot be kept apart from special tokens",
            hint="load it with transformers.AutoTokenizer from a folder that has a tokenizer.json",
        )
    try:
        spec: dict[str, Any] = json.loads(backend.to_str())
    except Exception as error:  # the library raises plain Exception for parts that are Python code
        raise UnsupportedModelError(
            f"the rules of this {type(tokenizer).__name__} cannot be read: {error}",
            hint="a tokenizer without normalizers or pre-tokenizers written in Python works",
        ) from error
    return spec | {"truncation": None, "padding": None}


def _read_template(tokenizer: PreTrainedTokenizerBase) -> str | None:
    template = tokenizer.chat_template
    if isinstance(template, dict):
        template = template.get("default")
    return None if template is None else str(template)


def _build(spec: dict[str, Any], *, post_processor: Any = None, special_as_text: bool = False) -> Backend:
    backend = Backend.from_str(json.dumps(spec | {"post_processor": post_processor}))
    backend.encode_special_tokens = special_as_text
    return backend


def _without_dummy(part: Any) -> Any:
    """The same rules without the parts that put a space in front of a text."""
    if isinstance(part, list):
        return [_without_dummy(item) for item in part if not _is_prepend(item)]
    if not isinstance(part, dict):
        return part
    kept = {key: None if _is_prepend(value) else _without_dummy(value) for key, value in part.items() if key != "model"}
    if part.get("type") == "Metaspace":
        kept["prepend_scheme"] = "never"
    if part.get("type") == "ByteLevel":
        kept["add_prefix_space"] = False
    return kept | ({"model": part["model"]} if "model" in part else {})


def _is_prepend(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") == "Prepend"


def _literals(template: str) -> list[str]:
    """What a template writes word for word: its text outside tags, and the strings inside them."""
    try:
        return [value for _, kind, value in jinja2.Environment().lex(template) if kind in ("data", "string")]
    except jinja2.TemplateSyntaxError:
        return [template]
