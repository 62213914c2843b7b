"""Text to ids by a tokenizer's own rules, with special tokens and the dummy space exactly where they are wanted."""

from __future__ import annotations

import json
import re
import string
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from itertools import pairwise
from typing import Any

from tokenizers import Tokenizer as Backend

from promptcache.errors import RequestError
from promptcache.layout.text.tokenizer import Piece

# White space as the tokenizers library counts it where a token swallows what stands behind it (Unicode White_Space);
# Python's \s also holds the four separators.
_SWALLOWED = re.compile(r"\A[^\S\x1c-\x1f]+")

Token = tuple[int, tuple[int, int]]
"""An id and where its text starts and ends."""


class TextEncoder:
    """`layout.tokenizer.Tokenizer` as far as it is about text and ids. Immutable, so any thread may call it.

    `rules` is a backend's JSON without padding and truncation, `control` the added tokens that users' text must never
    become. The *dummy space* is what many tokenizers put in front of a text; where else they put it is found by
    trying, as each has its own way.
    """

    def __init__(self, rules: dict[str, Any], control: AbstractSet[int]) -> None:
        added = rules["added_tokens"]
        self.control = frozenset(control)
        self._content: dict[int, str] = {token["id"]: token["content"] for token in added}
        self._swallows = {token["id"] for token in added if token["rstrip"]}
        self._template = build(rules)
        # To the backend, tokens flagged special are those that it can be told to leave as text.
        text = rules | {"added_tokens": [token | {"special": token["id"] in control} for token in added]}
        inner = _without_dummy(text)
        self._start = build(text, special_as_text=True)
        self._inner = None if inner == text else build(inner, special_as_text=True)
        self._unknown = self._find_unknown(rules["model"])
        # Ids that call for a second look at an encoding.
        self._watched = self.control if self._inner is None else self.control | self._content.keys()
        self._dummy_behind: dict[int, bool] = {}

    def encode(self, text: str, *, behind: int | None, start: bool) -> tuple[int, ...]:
        if not start and behind in self._swallows:
            text = _SWALLOWED.sub("", text)
        if not text:
            return ()
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise RequestError(
                f"the text is not Unicode: half a surrogate pair, {text[error.start]!r}, at index {error.start}",
                hint="decode the text with the encoding that it was written in",
            ) from None
        return tuple(self._encode(text, start or (behind is not None and self._puts_dummy_behind(behind))))

    def encode_all(self, texts: Sequence[str], *, behind: int | None, start: bool) -> list[tuple[int, ...]]:
        if behind is not None or not all(texts):
            return [self.encode(text, behind=behind, start=start) for text in texts]
        backend = self._start if start or self._inner is None else self._inner
        # Without offsets, which only texts that hold an added token need.
        encodings = backend.encode_batch_fast(list(texts), add_special_tokens=False)
        return [
            tuple(encoding.ids) if self._watched.isdisjoint(encoding.ids) else tuple(self._encode(text, start))
            for text, encoding in zip(texts, encodings, strict=True)
        ]

    def split(self, rendered: str) -> tuple[Piece, ...]:
        pieces: list[Piece] = []
        end = 0
        for id, (first, last) in _tokens(self._template, rendered):
            if self._is_control(id, rendered[first:last]):
                pieces += [rendered[end:first], id]
                end = last
        return tuple(piece for piece in (*pieces, rendered[end:]) if piece != "")

    def decode(self, ids: Sequence[int]) -> str:
        return str(self._template.decode(list(ids), skip_special_tokens=True))

    def _encode(self, text: str, dummy: bool) -> list[int]:
        """Ids of a text that is not empty, with the dummy space in front if the tokenizer has one, or without."""
        backend = self._start if dummy or self._inner is None else self._inner
        encoding = backend.encode(text, add_special_tokens=False)
        if self._watched.isdisjoint(encoding.ids):
            return list(encoding.ids)
        tokens = list(zip(encoding.ids, encoding.offsets, strict=True))
        if backend is self._inner:
            tokens = self._restore_later_dummies(text, tokens)
        # Some models spell a special token by themselves (Unigram, whose vocabulary holds "</s>"). A cut inside it
        # makes them spell its parts.
        cuts = []
        for id, (first, last) in tokens:
            if self._is_control(id, text[first:last]):
                if last - first < 2:
                    raise RequestError(
                        f"this model's tokenizer cannot write {text[first:last]!r} as text: "
                        f"it always becomes the special token {self._content[id]!r}",
                        hint="take it out of the text",
                    )
                cuts.append(first + 1)
        if not cuts:
            return [id for id, _ in tokens]
        parts = [text[first:last] for first, last in pairwise([0, *cuts, len(text)])]
        return [id for n, part in enumerate(parts) for id in self._encode(part, dummy and n == 0)]

    def _restore_later_dummies(self, text: str, tokens: list[Token]) -> list[Token]:
        """Some tokenizers put the dummy space behind each added token too: only the one at the start is not wanted."""
        at = next((n for n, (id, _) in enumerate(tokens) if id in self._content and id not in self.control), None)
        if at is None:
            return tokens
        whole = _tokens(self._start, text)
        return tokens[:at] + whole[whole.index(tokens[at]) :] if tokens[at] in whole else tokens

    def _is_control(self, id: int, surface: str) -> bool:
        """Whether `surface` became a control token. The unknown token is none where it stands for unknown text."""
        return id in self.control and (id != self._unknown or surface.strip() == self._content[id])

    def _puts_dummy_behind(self, special: int) -> bool:
        known = self._dummy_behind.get(special)
        if known is None:
            known = self._dummy_behind[special] = self._probe_dummy_behind(special)
        return known

    def _probe_dummy_behind(self, special: int) -> bool:
        if special not in self.control or self._inner is None:
            return False
        for probe in string.ascii_letters + string.digits:
            with_dummy, without = self._encode(probe, True), self._encode(probe, False)
            found = self._template.encode(self._content[special] + probe, add_special_tokens=False).ids[1:]
            if with_dummy != without and found in (with_dummy, without):
                return bool(found == with_dummy)
        return False

    def _find_unknown(self, model: dict[str, Any]) -> int | None:
        id, name = model.get("unk_id"), model.get("unk_token")
        return self._template.token_to_id(name) if id is None and name is not None else id


def build(rules: dict[str, Any], *, post_processor: Any = None, special_as_text: bool = False) -> Backend:
    """A backend of our own, which adds nothing to a text unless given a post-processor."""
    backend = Backend.from_str(json.dumps(rules | {"post_processor": post_processor}))
    backend.encode_special_tokens = special_as_text
    return backend


def _tokens(backend: Backend, text: str) -> list[Token]:
    encoding = backend.encode(text, add_special_tokens=False)
    return list(zip(encoding.ids, encoding.offsets, strict=True))


def _without_dummy(rules: dict[str, Any]) -> dict[str, Any]:
    """The same rules without the parts that put a space in front of a text."""
    return rules | {part: _strip(rules[part]) for part in ("normalizer", "pre_tokenizer")}


def _strip(part: Any) -> Any:
    if isinstance(part, list):
        return [_strip(item) for item in part if not _is_prepend(item)]
    if not isinstance(part, dict):
        return part
    if _is_prepend(part):
        return None
    part = {key: _strip(value) for key, value in part.items()}
    if part.get("type") == "Metaspace":
        part["prepend_scheme"] = "never"
    if part.get("type") == "ByteLevel":
        part["add_prefix_space"] = False
    return part


def _is_prepend(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") == "Prepend"
