"""A prompt's tokens numbered without gaps, its imports in the order in which it lists them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from promptcache.errors import LayoutError
from promptcache.layout.layout import SchemaLayout
from promptcache.layout.plan import RequestPlan, Run
from promptcache.layout.prompt_plan import prompt_plan
from promptcache.layout.text.arguments import argument_ids
from promptcache.layout.text.dialogue import Between, Tail, tail_of
from promptcache.layout.text.import_order import ImportOrder, PromptOrder
from promptcache.layout.text.new_text import spell
from promptcache.layout.text.placed import PlacedText
from promptcache.layout.text.tokenizer import Piece, Tokenizer
from promptcache.layout.text.tree import Item, ModuleNode, ParameterNode, SegmentNode, UnionNode
from promptcache.pml import BoundImport, BoundPrompt
from promptcache.source import Span


def place(layout: SchemaLayout, prompt: BoundPrompt, tokenizer: Tokenizer, max_positions: int | None) -> RequestPlan:
    """The plan of a bound prompt. Raises PromptError, LayoutError, TurnError."""
    plan = prompt_plan(layout, prompt, _placed(layout, prompt, tokenizer).runs, relocates=True)
    if max_positions is not None and plan.end > max_positions:
        raise LayoutError(
            f"the prompt takes {plan.end} tokens and the model has {max_positions} positions",
            hint="import less, or shorten the new text",
            span=prompt.span,
        )
    return plan


def place_texts(layout: SchemaLayout, prompt: BoundPrompt, tokenizer: Tokenizer) -> tuple[PlacedText, ...]:
    """The texts of a bound prompt by position. Raises as `place`."""
    return tuple(_placed(layout, prompt, tokenizer).texts)


def _placed(layout: SchemaLayout, prompt: BoundPrompt, tokenizer: Tokenizer) -> _Placing:
    tail, between = tail_of(prompt, layout.tree, tokenizer, PromptOrder)
    placing = _Placing(layout, tokenizer, between)
    imports = PromptOrder(item for item in prompt.items if isinstance(item, BoundImport))
    placing.module(layout.tree.root, None, imports)
    placing.append(tail)
    return placing


class _Placing:
    """Runs placed so far with their texts, one behind the other."""

    def __init__(self, layout: SchemaLayout, tokenizer: Tokenizer, between: Iterable[Between]) -> None:
        self.layout = layout
        self.tokenizer = tokenizer
        self.between = tuple(between)
        self.position = 0
        self.runs: list[Run] = []
        self.texts: list[PlacedText] = []

    def module(self, module: ModuleNode, item: BoundImport | None, imports: ImportOrder) -> None:
        """A module's items in the schema's order, what is imported inside it in the prompt's."""
        arguments = dict(item.arguments) if item else {}
        for importable, nodes in groupby(module.items, key=lambda node: isinstance(node, ModuleNode | UnionNode)):
            if importable:
                for found in imports.take([path for node in nodes for path in _paths(node)]):
                    self.imported(found)
                continue
            for node in nodes:
                if isinstance(node, SegmentNode):
                    self.segment(node)
                elif isinstance(node, ParameterNode) and item is not None:
                    self.argument(item, node, arguments.get(node.name, ""))
        imports.end()

    def imported(self, item: BoundImport) -> None:
        """One import; at the prompt's top with the new text that stands behind it, and before it if it is the first."""
        for text, left, right in self.between:
            if left is None and right == item:
                self.new((text.text,), text.span)
        self.module(self.layout.modules[item.path], item, PromptOrder(item.imports))
        for text, left, _ in self.between:
            if left == item:
                self.new((text.text,), text.span)

    def segment(self, node: SegmentNode) -> None:
        stored = self.layout.segments.get(node.index)
        text = PlacedText(self.position, node.pieces, node.before, node.start, node.behind_bos, node.span)
        self.put(Run(self.position, node.ids, "reused" if stored else "fresh", stored), text)

    def argument(self, item: BoundImport, node: ParameterNode, text: str) -> None:
        if ids := argument_ids(self.tokenizer, item, node, text):
            pieces = (" " * node.space + text,)
            placed = PlacedText(self.position, pieces, node.before, node.start, False, item.argument_span(node.name))
            self.put(Run(self.position, ids, "fresh"), placed)

    def append(self, tail: Tail) -> None:
        """What closes the prompt, behind all else."""
        self.new(tail.pieces, tail.span, behind_bos=tail.behind_bos)

    def new(self, pieces: tuple[Piece, ...], span: Span | None, *, behind_bos: bool = False) -> None:
        text, ids = spell(self.tokenizer, self.texts, pieces, self.position, span, behind_bos=behind_bos)
        if ids:
            self.put(Run(self.position, ids, "fresh"), text)

    def put(self, run: Run, text: PlacedText) -> None:
        self.runs.append(run)
        self.texts.append(text)
        self.position = run.end


def _paths(node: Item) -> Iterable[str]:
    assert isinstance(node, ModuleNode | UnionNode)
    return (module.path for module in ((node,) if isinstance(node, ModuleNode) else node.members))
