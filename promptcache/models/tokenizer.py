"""Our view of a Hugging Face tokenizer and its chat template."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from hashlib import blake2b
from typing import Any

import jinja2
from tokenizers import Tokenizer as Backend
from transformers import PreTrainedTokenizerBase

from promptcache.errors import TurnError, UnsupportedModelError
from promptcache.layout.text import conversation
from promptcache.layout.text.tokenizer import Piece
from promptcache.models.text_encoder import TextEncoder, build

_BYTE_TOKEN = re.compile(r"<0x[0-9A-F]{2}>")

_PROBES = (("user", "assistant", "user"), ("user", "assistant"), ("system", "user"), ("user",))
"""Roles of the small conversations by which a template is known."""


class HFTokenizer:
    """The protocol `layout.tokenizer.Tokenizer` over a fast tokenizer of transformers.

    All rules are read once: padding, truncation and switches that the wrapped tokenizer is given, before or later and
    in any thread, neither change an id here nor clash with a call here. *Control* tokens are those that only a template
    may write: every added token flagged special, and each other one that this template writes word for word.
    Raises UnsupportedModelError for a tokenizer whose rules cannot be read.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._wrapped = tokenizer
        self._rules = _read_rules(tokenizer)
        self._template = _read_template(tokenizer)
        self._names: dict[str, Any] = dict(tokenizer.special_tokens_map)
        self._named = {name: getattr(tokenizer, f"{name}_token_id") for name in ("bos", "eos", "unk", "pad")}
        self._gaps = self._probe_template()
        self._encoder = TextEncoder(self._rules, self._find_control())
        added = self._find_added_bos()
        self._bos_id = self._find_written_bos() if added is None else added
        self._eos_ids = self._find_eos()

    @cached_property
    def fingerprint(self) -> str:
        digest = blake2b(digest_size=16)
        for part in (self._rules, self._template, self._names, self._named):
            data = json.dumps(part, sort_keys=True, default=str).encode()
            digest.update(len(data).to_bytes(8, "little") + data)
        return digest.hexdigest()

    @property
    def bos_id(self) -> int | None:
        return self._bos_id

    @property
    def placeholder_id(self) -> int:
        named = (self._named["unk"], self._named["pad"], self._named["eos"])
        return next((id for id in named if id is not None), 0)

    @property
    def has_template(self) -> bool:
        return self._template is not None

    @property
    def special_ids(self) -> frozenset[int]:
        return self._encoder.control

    @property
    def eos_ids(self) -> frozenset[int]:
        return self._eos_ids

    def encode(self, text: str, *, behind: int | None, start: bool) -> tuple[int, ...]:
        return self._encoder.encode(text, behind=behind, start=start)

    def encode_all(self, texts: Sequence[str], *, behind: int | None, start: bool) -> list[tuple[int, ...]]:
        return self._encoder.encode_all(texts, behind=behind, start=start)

    def split(self, rendered: str) -> tuple[Piece, ...]:
        return self._encoder.split(rendered)

    def decode(self, ids: Sequence[int]) -> str:
        return self._encoder.decode(ids)

    def render(self, turns: Sequence[tuple[str, str]], *, open_assistant: bool) -> str:
        return self._render(turns, open_assistant, self._names)

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

    def _probe_template(self) -> dict[tuple[str, ...], tuple[str, ...]]:
        """The gaps that the template writes around contents, for each probe that it accepts."""
        gaps: dict[tuple[str, ...], tuple[str, ...]] = {}
        for roles in _PROBES if self.has_template else ():
            try:
                turns = [(role, "a") for role in roles]
                gaps[roles] = conversation.render(self, turns, open_assistant=roles[-1] == "user").gaps
            except TurnError:
                continue
        return gaps

    def _find_control(self) -> set[int]:
        # NUL keeps two pieces from making up a token together.
        written = "\0".join([*_literals(self._template or ""), *(gap for gaps in self._gaps.values() for gap in gaps)])
        control = set()
        for token in self._rules["added_tokens"]:
            content = token["content"]
            # White space that happens to be an added token (Gemma's line breaks) is text, whoever writes it; a byte
            # token that is flagged special is how the model spells unknown characters.
            if content.strip() and not _BYTE_TOKEN.fullmatch(content) and (token["special"] or content in written):
                control.add(token["id"])
        return control

    def _find_added_bos(self) -> int | None:
        """The token that the tokenizer puts before each text."""
        backend = build(self._rules, post_processor=self._rules["post_processor"])
        encoding = backend.encode("a")
        prefix = encoding.ids[: (*encoding.special_tokens_mask, 0).index(0)]
        if len(prefix) > 1:
            raise UnsupportedModelError(
                f"this tokenizer puts several tokens before every text ({backend.decode(prefix, False)!r})",
                hint="a tokenizer that adds one BOS token, or none, works",
            )
        return int(prefix[0]) if prefix else None

    def _find_written_bos(self) -> int | None:
        """The named BOS, where the template opens conversations with it.

        A template that opens each turn with that token uses it as a role marker (SmolLM2), not as a BOS, unless it asks
        for it by name: then another name takes its place.
        """
        for roles, gaps in self._gaps.items():
            pieces = [piece for gap in gaps for piece in self.split(gap)]
            if not pieces or pieces[0] != self._named["bos"]:
                return None
            other = "zqbosqz"
            by_name = self._render([(role, "a") for role in roles], False, self._names | {"bos_token": other})
            return self._named["bos"] if by_name.startswith(other) or pieces.count(pieces[0]) == 1 else None
        return None

    def _find_eos(self) -> frozenset[int]:
        """The named EOS, and the special token behind an assistant's turn: its own mark, else what opens the next."""
        ends = {self._named["eos"]}
        for roles in (("user", "assistant"), ("user", "assistant", "user")):
            behind = [piece for piece in self.split(self._gaps.get(roles, ("",) * 3)[2]) if isinstance(piece, int)]
            if behind:
                ends.add(behind[0])
                break
        return frozenset(id for id in ends if id is not None)


def _read_rules(tokenizer: PreTrainedTokenizerBase) -> dict[str, Any]:
    """The backend as JSON, without the state that calls leave in it (padding, truncation)."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if not isinstance(backend, Backend):
        raise UnsupportedModelError(
            f"{type(tokenizer).__name__} is not a fast tokenizer: its rules cannot be read, "
            "so text cannot be kept apart from special tokens",
            hint="load it with transformers.AutoTokenizer from a folder that has a tokenizer.json",
        )
    try:
        rules: dict[str, Any] = json.loads(backend.to_str())
    except Exception as error:  # the library raises plain Exception for parts that are Python code
        raise UnsupportedModelError(
            f"the rules of this {type(tokenizer).__name__} cannot be read: {error}",
            hint="a tokenizer without normalizers or pre-tokenizers written in Python works",
        ) from error
    return rules | {"truncation": None, "padding": None}


def _read_template(tokenizer: PreTrainedTokenizerBase) -> str | None:
    template = tokenizer.chat_template
    if isinstance(template, dict):
        template = template.get("default")
    return None if template is None else str(template)


def _literals(template: str) -> list[str]:
    """What a template writes word for word: its text outside tags, and the strings inside them."""
    try:
        return [value for _, kind, value in jinja2.Environment().lex(template) if kind in ("data", "string")]
    except jinja2.TemplateSyntaxError:
        return [template]
