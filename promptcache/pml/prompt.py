"""A prompt as a value, not yet checked against a schema."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from promptcache.errors import PromptError
from promptcache.pml.import_paths import import_tree
from promptcache.pml.nodes import Import, NewText, NewTurn, Role
from promptcache.source import Span

_ROLES: tuple[Role, ...] = ("system", "user", "assistant")
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, init=False)
class Prompt:
    """Imports from one schema, arguments and new text.

    `items` holds imports and new texts in the prompt's order, `turns` the turns behind them. `arguments` holds what
    was given by path or name; a prompt parsed from XML has its arguments on its imports instead. `exact` says that
    texts are taken to the byte: those of a prompt built in Python, or under `xml:space="preserve"`.
    """

    schema: str | None
    items: tuple[Import | NewText, ...]
    turns: tuple[NewTurn, ...]
    arguments: tuple[tuple[str, str], ...]
    repair: str | None
    exact: bool
    span: Span | None = field(compare=False, repr=False)

    def __init__(
        self,
        schema: str | None = None,
        imports: Iterable[str] = (),
        arguments: Mapping[str, str] | None = None,
        messages: Sequence[Mapping[str, str]] | None = None,
        text: str | None = None,
        repair: str | None = None,
    ) -> None:
        """A prompt without XML: all strings are byte-exact, and nothing in them is ever parsed.

        `imports` lists paths; neighbours that share a leading part are one import, and `miami[1]/beaches` starts a
        second one of `miami`. `arguments` maps `plan/days`, `plan[1]/days` or, where it is unique, `days` to a value.
        `messages` are turns ({"role": ..., "content": ...}), `text` is text behind the last import; not both.
        Raises PromptError.
        """
        if messages is not None and text is not None:
            raise PromptError("messages and text together", hint="put the text into a message, or drop the messages")
        items: list[Import | NewText] = list(import_tree(imports))
        if text is not None and checked("text", text):
            items.append(NewText(text))
        if not isinstance(arguments or {}, Mapping):
            raise PromptError("arguments is not a mapping of paths to text", hint='arguments={"plan/days": "three"}')
        given = tuple(
            (checked("an argument's path", k), checked("an argument", v)) for k, v in (arguments or {}).items()
        )
        turns = tuple(_turn(number, message) for number, message in enumerate(messages or ()))
        for what, value in (("schema", schema), ("repair", repair)):
            if value is not None:
                checked(what, value)
        self._set(schema, tuple(items), turns, given, repair, exact=True, span=None)

    @classmethod
    def from_items(
        cls,
        schema: str | None,
        items: tuple[Import | NewText, ...],
        turns: tuple[NewTurn, ...],
        *,
        repair: str | None = None,
        exact: bool = False,
        span: Span | None = None,
    ) -> Prompt:
        """A prompt from parsed items, with arguments on the imports."""
        prompt = cls.__new__(cls)
        prompt._set(schema, items, turns, (), repair, exact=exact, span=span)
        return prompt

    def with_turn(self, role: Role, text: str) -> Prompt:
        """The prompt with one more turn behind it; `text` is byte-exact. Raises PromptError."""
        turn = _turn(len(self.turns), {"role": role, "content": text})
        prompt = self.__class__.__new__(self.__class__)
        prompt._set(
            self.schema,
            self.items,
            (*self.turns, turn),
            self.arguments,
            self.repair,
            exact=self.exact,
            span=self.span,
        )
        return prompt

    def _set(
        self,
        schema: str | None,
        items: tuple[Import | NewText, ...],
        turns: tuple[NewTurn, ...],
        arguments: tuple[tuple[str, str], ...],
        repair: str | None,
        *,
        exact: bool,
        span: Span | None,
    ) -> None:
        values = {
            "schema": schema,
            "items": items,
            "turns": turns,
            "arguments": arguments,
            "repair": repair,
            "exact": exact,
            "span": span,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)


def _turn(number: int, message: Mapping[str, str]) -> NewTurn:
    where = f"message {number + 1}"
    if not isinstance(message, Mapping) or set(message) != {"role", "content"}:
        raise PromptError(
            f'{where} is not a mapping of "role" and "content"', hint='{"role": "user", "content": "..."}'
        )
    role = next((role for role in _ROLES if role == message["role"]), None)
    if role is None:
        raise PromptError(f"{where} has the role {message['role']!r}", hint="roles are system, user and assistant")
    return NewTurn(role, checked(f"the content of {where}", message["content"]))


def checked(what: str, text: str) -> str:
    """`text`, if it is text that a tokenizer can take. Raises PromptError."""
    if not isinstance(text, str):
        raise PromptError(f"{what} is {type(text).__name__}, not str", hint="convert it to text first")
    if _SURROGATE.search(text):
        raise PromptError(f"{what} holds half of a surrogate pair", hint="decode the text anew, or take it out")
    return text
