"""PML text to a prompt."""

from __future__ import annotations

from pathlib import Path

from promptcache.errors import PMLSyntaxError, PromptError
from promptcache.pml.document import Element, read_document
from promptcache.pml.faults import Faults
from promptcache.pml.files import read_source
from promptcache.pml.names import RESERVED, shorten, suggest
from promptcache.pml.nodes import Import, NewText, NewTurn, Role
from promptcache.pml.prompt import Prompt
from promptcache.pml.whitespace import Kind, clean_runs, is_blank
from promptcache.source import Source, Span

_ROLES: dict[str, Role] = {"system": "system", "user": "user", "assistant": "assistant"}
_ATTRIBUTES = ("schema", "repair")


def read_prompt(path: Path) -> Prompt:
    """The prompt in a file. Raises as `parse_prompt`."""
    return parse_prompt(read_source(Path(path)))


def parse_prompt(source: str | Source) -> Prompt:
    """The prompt in a text that begins with `<prompt`, not yet checked against a schema.

    Raises PMLSyntaxError or PromptError for the first fault, with those found in the same pass in its `others`.
    """
    if isinstance(source, str):
        source = Source("<prompt>", source)
    return _Reader().prompt(read_document(source))


class _Reader:
    """One pass over a document, collecting faults."""

    def __init__(self) -> None:
        self.faults = Faults()

    def prompt(self, root: Element) -> Prompt:
        if root.tag != "prompt":
            hint = "this is a schema" if root.tag == "schema" else "the root element of a prompt is <prompt>"
            raise PMLSyntaxError(f"<{shorten(root.tag)}> is no prompt", hint=hint, span=root.span)
        for name, attribute in root.attributes.items():
            if name not in _ATTRIBUTES:
                hint = suggest(name, _ATTRIBUTES)
                self.fault(f'<prompt> has no attribute "{shorten(name)}"', hint, attribute.span)
        items, turns = self.content(root)
        self.faults.raise_first()
        values = {name: attribute.value for name, attribute in root.attributes.items()}
        return Prompt.from_items(
            values.get("schema"),
            items,
            turns,
            repair=values.get("repair"),
            exact=root.preserve,
            span=root.span,
        )

    def content(self, root: Element) -> tuple[tuple[Import | NewText, ...], tuple[NewTurn, ...]]:
        runs = [run.text for run in root.runs]
        if not root.preserve:
            kinds = [Kind.TURN if child.tag in _ROLES else Kind.MODULE for child in root.children]
            runs = clean_runs(runs, kinds, drop_blank=True)
        items: list[Import | NewText] = []
        turns: list[NewTurn] = []
        for index, run in enumerate(runs):
            span = root.runs[index].span
            if turns and not is_blank(run):
                self.fault("text behind a turn", "put it into a role tag, or before the first one", span)
            elif run and not turns:
                items.append(NewText(run, span))
            if index < len(root.children):
                child = root.children[index]
                if child.tag in _ROLES:
                    turns.append(self.turn(child, _ROLES[child.tag]))
                elif turns:
                    self.fault(
                        f"<{shorten(child.tag)}> is imported behind a turn",
                        "imports come before the role tags; a turn that holds an import belongs into the schema",
                        child.span,
                    )
                else:
                    items.append(self.import_(child))
        return tuple(items), tuple(turns)

    def import_(self, element: Element) -> Import:
        if element.tag in RESERVED:
            self.fault(f"<{element.tag}> stands in a prompt", "write an import as <name/>", element.span)
        for run in element.runs:
            if not is_blank(run.text):
                self.fault(
                    f"text inside the import <{shorten(element.tag)}>",
                    "put new text before or behind the import, or give it as an argument",
                    run.span,
                )
        attributes = element.attributes
        return Import(
            element.tag,
            tuple((name, attribute.value) for name, attribute in attributes.items()),
            tuple(self.import_(child) for child in element.children),
            element.span,
            tuple((name, attribute.span) for name, attribute in attributes.items()),
        )

    def turn(self, element: Element, role: Role) -> NewTurn:
        for name, attribute in element.attributes.items():
            self.fault(f'<{role}> has no attribute "{shorten(name)}"', "take it out", attribute.span)
        for child in element.children:
            self.fault(
                f"<{shorten(child.tag)}> stands inside <{role}>",
                "put the turn into the schema: a prompt imports outside of its role tags",
                child.span,
            )
        runs = [run.text for run in element.runs]
        if not element.preserve:
            runs = clean_runs(runs, [Kind.MODULE] * len(element.children))
        return NewTurn(role, "".join(runs), element.span)

    def fault(self, message: str, hint: str, span: Span) -> None:
        self.faults.add(PromptError(message, hint=hint, span=span))
