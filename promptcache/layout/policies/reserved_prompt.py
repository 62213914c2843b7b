"""A prompt's tokens at the positions that the reserved policy gives them."""

from __future__ import annotations

from itertools import pairwise

from promptcache.errors import LayoutError, PromptError
from promptcache.layout.layout import SchemaLayout
from promptcache.layout.plan import RequestPlan, Run
from promptcache.layout.prompt_plan import prompt_plan
from promptcache.layout.text.arguments import argument_ids
from promptcache.layout.text.dialogue import Tail, tail_of
from promptcache.layout.text.new_text import spell
from promptcache.layout.text.placed import PlacedText
from promptcache.layout.text.tokenizer import Piece, Tokenizer
from promptcache.layout.text.tree import ModuleNode, ParameterNode, SegmentNode
from promptcache.pml import BoundImport, BoundPrompt, NewText
from promptcache.source import Span


def place(layout: SchemaLayout, prompt: BoundPrompt, tokenizer: Tokenizer, max_positions: int | None) -> RequestPlan:
    """The plan of a bound prompt. Raises PromptError, LayoutError, TurnError."""
    plan = prompt_plan(layout, prompt, _placed(layout, prompt, tokenizer).runs, relocates=False)
    if max_positions is not None and plan.end > max_positions:
        raise LayoutError(
            f"the prompt reaches position {plan.end - 1} and the model has {max_positions}",
            hint="import less, shorten the new text, or use layout='compact', which leaves no gaps",
            span=prompt.span,
        )
    return plan


def place_texts(layout: SchemaLayout, prompt: BoundPrompt, tokenizer: Tokenizer) -> tuple[PlacedText, ...]:
    """The texts of a bound prompt by position. Raises as `place`."""
    texts = _placed(layout, prompt, tokenizer).texts
    return tuple(sorted(texts, key=lambda text: text.position))


def _placed(layout: SchemaLayout, prompt: BoundPrompt, tokenizer: Tokenizer) -> _Placing:
    placing = _Placing(layout, tokenizer)
    placing.take(layout.tree.root, None)
    for item in prompt.items:
        if isinstance(item, BoundImport):
            placing.take_import(item)
    tail, between = tail_of(prompt, layout.tree, tokenizer)
    for text, left, right in between:
        placing.insert(text, left, right)
    placing.append(tail)
    return placing


class _Placing:
    """Runs placed so far with their texts, and the ranges that new text must keep out of."""

    def __init__(self, layout: SchemaLayout, tokenizer: Tokenizer) -> None:
        self.layout = layout
        self.tokenizer = tokenizer
        self.runs: list[Run] = []
        self.texts: list[PlacedText] = []
        self.taken: list[tuple[int, int]] = []

    def take_import(self, item: BoundImport) -> None:
        if item.occurrence:
            raise PromptError(
                f"module {item.path!r} is imported twice",
                hint="in the reserved layout a module has one place; layout='compact' allows repeats",
                span=item.span,
            )
        module = self.layout.modules[item.path]
        if "/" not in item.path:
            self.taken.append(self.range_of(item))
        self.take(module, item)
        for nested in item.imports:
            self.take_import(nested)

    def take(self, module: ModuleNode, item: BoundImport | None) -> None:
        """The runs of a module's own items."""
        arguments = dict(item.arguments) if item else {}
        for node in module.items:
            if isinstance(node, SegmentNode):
                run = self.segment(node)
                if item is None:
                    self.taken.append((run.start, run.end))
            elif isinstance(node, ParameterNode) and item is not None:
                self.argument(item, node, arguments.get(node.name, ""))

    def argument(self, item: BoundImport, node: ParameterNode, text: str) -> None:
        if ids := argument_ids(self.tokenizer, item, node, text):
            start = self.layout.parameters[item.path, node.name]
            pieces = (" " * node.space + text,)
            self.put(
                Run(start, ids, "fresh"),
                PlacedText(start, pieces, node.before, node.start, False, item.argument_span(node.name)),
            )

    def segment(self, node: SegmentNode) -> Run:
        stored = self.layout.segments.get(node.index)
        start = self.layout.segment_starts[node.index]
        text = PlacedText(start, node.pieces, node.before, node.start, node.behind_bos, node.span)
        return self.put(Run(start, node.ids, "reused" if stored else "fresh", stored), text)

    def put(self, run: Run, text: PlacedText) -> Run:
        self.runs.append(run)
        self.texts.append(text)
        return run

    def range_of(self, item: BoundImport) -> tuple[int, int]:
        start = self.layout.starts[item.path]
        return start, start + self.layout.modules[item.path].length

    def insert(self, text: NewText, left: BoundImport | None, right: BoundImport) -> None:
        """New text before `right` and behind `left`: the first run of free positions that is long enough."""
        low = self.range_of(left)[1] if left else 0
        high = self.range_of(right)[0]
        if high < low:
            raise PromptError(
                f"{right.path!r} stands before {left.path if left else ''!r} in the schema, "
                "so no text can stand between them in this order",
                hint="import them in the schema's order, or move the text to the end",
                span=text.span or right.span,
            )
        edges = [(low, low), *sorted(r for r in self.taken if r[1] > low and r[0] < high), (high, high)]
        gaps = [(a_end, b_start) for (_, a_end), (b_start, _) in pairwise(edges) if b_start > a_end]
        for start, end in gaps:
            new, ids = self.spell((text.text,), start, text.span)
            if not ids:
                return
            if len(ids) <= end - start:
                self.put(Run(start, ids, "fresh"), new)
                self.taken.append((start, start + len(ids)))
                return
        raise self.no_room(text, low, gaps, right.span)

    def no_room(self, text: NewText, low: int, gaps: list[tuple[int, int]], span: Span | None) -> LayoutError:
        longest = max((end - start for start, end in gaps), default=0)
        return LayoutError(
            f"the text needs {len(self.spell((text.text,), low, None)[1])} tokens, "
            f"and the longest run of free positions there has {longest}",
            hint="move the text to the end of the prompt, or load the schema with layout='compact'",
            span=text.span or span,
        )

    def append(self, tail: Tail) -> None:
        """The tail starts right behind the last position in use."""
        start = max((run.end for run in self.runs), default=0)
        text, ids = self.spell(tail.pieces, start, tail.span, behind_bos=tail.behind_bos)
        if ids:
            self.put(Run(start, ids, "fresh"), text)

    def spell(
        self, pieces: tuple[Piece, ...], position: int, span: Span | None, *, behind_bos: bool = False
    ) -> tuple[PlacedText, tuple[int, ...]]:
        """New text that will stand at `position`, and its ids."""
        earlier = [text for text in self.texts if text.position < position]
        earlier.sort(key=lambda text: text.position)
        return spell(self.tokenizer, earlier, pieces, position, span, behind_bos=behind_bos)
