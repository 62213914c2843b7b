"""A prompt and its schema to a prompt whose names all mean something."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from promptcache.errors import PromptError
from promptcache.pml.bind_arguments import assign
from promptcache.pml.bound import BoundImport, BoundPrompt
from promptcache.pml.ending import import_ends_in_break, prompt_ends_in_break
from promptcache.pml.faults import Faults
from promptcache.pml.lint import prompt_notes
from promptcache.pml.names import shorten, suggest
from promptcache.pml.nodes import Import, Module, NewText, Node
from promptcache.pml.prompt import Prompt
from promptcache.pml.schema import Schema
from promptcache.pml.scope import importable, join
from promptcache.pml.use import Use
from promptcache.source import Span


def bind(prompt: Prompt, schema: Schema | None, *, loaded: Iterable[str] = ()) -> BoundPrompt:
    """The prompt with its imports and arguments found in `schema`, and defaults filled in.

    `schema` is None where the prompt names none, or one that is not loaded; `loaded` lists the names to suggest then.
    A module may be imported again (`BoundPrompt.repeats`). Raises PromptError for the first fault, with the others in
    its `others`.
    """
    if prompt.schema is None:
        return _bind_plain(prompt)
    if schema is None or schema.name != prompt.schema:
        names = loaded if schema is None else [schema.name]
        raise PromptError(
            f'no schema "{shorten(prompt.schema)}" is loaded',
            hint=suggest(prompt.schema, names, what="loaded"),
            span=prompt.span,
        )
    return _Binder(prompt, schema).bound()


def _bind_plain(prompt: Prompt) -> BoundPrompt:
    faults = Faults()
    hint = 'name the schema: <prompt schema="...">, or Prompt(schema="...")'
    texts = []
    for item in prompt.items:
        if isinstance(item, NewText):
            texts.append(item)
        else:
            faults.add(
                PromptError(
                    f"<{shorten(item.name)}> is imported, and the prompt names no schema", hint=hint, span=item.span
                )
            )
    for path, _ in prompt.arguments:
        faults.add(PromptError(f'"{shorten(path)}" is given, and the prompt names no schema', hint=hint))
    faults.raise_first()
    notes = prompt_notes((), texts, prompt.turns)
    return BoundPrompt(None, tuple(texts), prompt.turns, prompt.repair, prompt.span, notes)


class _Binder:
    """One pass over a prompt, collecting faults."""

    def __init__(self, prompt: Prompt, schema: Schema) -> None:
        self.prompt = prompt
        self.schema = schema
        self.faults = Faults()
        self.scopes: dict[str, dict[str, tuple[Module, int | None]]] = {}
        self.occurrences: dict[str, int] = {}
        self.places: dict[str, list[str]] | None = None

    def bound(self) -> BoundPrompt:
        imports = [item for item in self.prompt.items if isinstance(item, Import)]
        uses = self.level(imports, self.schema.children, None)
        assign(self.prompt.arguments, uses, self.schema, self.faults)
        self.faults.raise_first()
        bound = iter([use.bound() for use in uses])
        items = [item if isinstance(item, NewText) else next(bound) for item in self.prompt.items]
        if not self.prompt.exact:
            items = self.join_texts(items)
        prompt = self.prompt
        notes = prompt_notes(self.schema.children, items, prompt.turns)
        return BoundPrompt(self.schema, tuple(items), prompt.turns, prompt.repair, prompt.span, notes)

    def level(self, imports: Sequence[Import], nodes: Sequence[Node], parent: Use | None) -> list[Use]:
        """The imports that stand side by side, and those inside them."""
        path, address = (parent.path, parent.address) if parent else ("", "")
        scope = self.scopes.get(path)
        if scope is None:
            scope = self.scopes[path] = {module.name: (module, union) for module, union in importable(nodes)}
        uses: list[Use] = []
        counts: dict[str, int] = {}
        members: dict[int, Import] = {}
        for item in imports:
            if item.name not in scope:
                self.unknown(item, scope, path)
                continue
            module, union = scope[item.name]
            if union is not None and (other := members.setdefault(union, item)).name != item.name:
                self.second_member(item, other)
            number = counts[item.name] = counts.get(item.name, -1) + 1
            inner = join(path, item.name)
            step = f"{item.name}[{number}]" if number else item.name
            occurrence = self.occurrences[inner] = self.occurrences.get(inner, -1) + 1
            use = Use(inner, join(address, step), module, item, occurrence)
            use.inner = self.level(item.imports, module.children, use)
            uses.append(use)
        return uses

    def unknown(self, item: Import, scope: dict[str, tuple[Module, int | None]], path: str) -> None:
        if self.places is None:
            self.places = {}
            for each, module in self.schema.walk_modules():
                self.places.setdefault(module.name, []).append(each)
        where = f'module "{path}"' if path else f'schema "{self.schema.name}"'
        message = f'{where} has no module "{shorten(item.name)}"'
        if places := self.places.get(item.name):
            message = f'"{item.name}" is not imported here'
            *parents, name = places[0].split("/")
            nested = "".join(f"<{each}>" for each in parents) + f"<{name}/>"
            hint = f"it is inside: {nested}..." if parents else f"it stands at the top of the prompt: {nested}"
        else:
            hint = suggest(item.name, scope)
        self.fault(message, hint, item.span)

    def second_member(self, item: Import, other: Import) -> None:
        place = f" (line {other.span.line})" if other.span else ""
        self.fault(
            f'"{item.name}" and "{other.name}"{place} are members of one union',
            "a prompt imports at most one of them: take one out",
            item.span,
        )

    def join_texts(self, items: Sequence[BoundImport | NewText]) -> list[BoundImport | NewText]:
        """New text drops its leading line break where what precedes it ends in one."""
        imports = [item for item in items if isinstance(item, BoundImport)]
        done: list[BoundImport | NewText] = []
        seen = 0
        for item in items:
            if isinstance(item, BoundImport):
                seen += 1
            elif seen and item.text.startswith("\n"):
                last = seen == len(imports)
                if prompt_ends_in_break(self.schema, imports) if last else import_ends_in_break(imports[seen - 1]):
                    item = replace(item, text=item.text[1:])
            done.append(item)
        return done

    def fault(self, message: str, hint: str, span: Span | None) -> None:
        self.faults.add(PromptError(message, hint=hint, span=span))
