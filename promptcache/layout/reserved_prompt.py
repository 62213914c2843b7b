"""A prompt's tokens at the positions that the reserved policy gives them."""

from __future__ import annotations

from itertools import pairwise

from promptcache.errors import LayoutError, PromptError
from promptcache.layout.arguments import argument_ids
from promptcache.layout.dialogue import Tail, tail_of
from promptcache.layout.layout import SchemaLayout
from promptcache.layout.pieces import encode
from promptcache.layout.plan import RequestPlan, Run, finish_runs, is_exact
from promptcache.layout.tokenizer import Piece, Tokenizer
from promptcache.layout.tree import ModuleNode, ParameterNode, SegmentNode
from promptcache.pml import BoundImport, BoundPrompt, NewText
from promptcache.source import Span


def place(layout: SchemaLayout, prompt: BoundPrompt, tokenizer: Tokenizer, max_positions: int | None) -> RequestPlan:
    """The plan of a bound prompt. Raises PromptError, LayoutError, TurnError."""
    placing = _Placing(layout, tokenizer)
    placing.take(layout.tree.root, None)
    for item in prompt.items:
        if isinstance(item, BoundImport):
            placing.take_import(item)
    tail, between = tail_of(prompt, layout.tree, tokenizer)
    for text, left, right in between:
        placing.insert(text, left, right)
    placing.append(tail)
    runs = finish_runs(placing.runs)
    if max_positions is not None and runs and runs[-1].end > max_positions:
        raise LayoutError(
            f"the prompt reaches position {runs[-1].end - 1} and the model has {max_positions}",
            hint="import less, shorten the new text, or use layout='compact', which leaves no gaps",
            span=prompt.span,
        )
    return RequestPlan(layout.name, runs, is_exact(runs, layout.passes), layout.policy, layout.encoding)


class _Placing:
    """Runs placed so far, and the ranges that new text must keep out of."""

    def __init__(self, layout: SchemaLayout, tokenizer: Tokenizer) -> None:
        self.layout = layout
        self.tokenizer = tokenizer
        self.runs: list[Run] = []
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
                self.runs.append(self.segment(node))
                if item is None:
                    self.taken.append((self.runs[-1].start, self.runs[-1].end))
            elif isinstance(node, ParameterNode) and item is not None:
                self.argument(item, node, arguments.get(node.name, ""))

    def argument(self, item: BoundImport, node: ParameterNode, text: str) -> None:
        if ids := argument_ids(self.tokenizer, item, node, text):
            self.runs.append(Run(self.layout.parameters[item.path, node.name], ids, "fresh"))

    def segment(self, node: SegmentNode) -> Run:
        if stored := self.layout.segments.get(node.index):
            return Run(stored.start, stored.ids, "reused", stored)
        return Run(self.layout.fresh_starts[node.index], node.ids, "fresh")

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
            ids = self.encode((text.text,), start)
            if not ids:
                return
            if len(ids) <= end - start:
                self.runs.append(Run(start, ids, "fresh"))
                self.taken.append((start, start + len(ids)))
                return
        raise self.no_room(text, low, gaps, right.span)

    def no_room(self, text: NewText, low: int, gaps: list[tuple[int, int]], span: Span | None) -> LayoutError:
        longest = max((end - start for start, end in gaps), default=0)
        return LayoutError(
            f"the text needs {len(self.encode((text.text,), low))} tokens, "
            f"and the longest run of free positions there has {longest}",
            hint="move the text to the end of the prompt, or load the schema with layout='compact'",
            span=text.span or span,
        )

    def append(self, tail: Tail) -> None:
        """The tail starts right behind the last position in use."""
        start = max((run.end for run in self.runs), default=0)
        if ids := self.encode(tail.pieces, start, behind_bos=tail.behind_bos):
            self.runs.append(Run(start, ids, "fresh"))

    def encode(self, pieces: tuple[Piece, ...], start: int, *, behind_bos: bool = False) -> tuple[int, ...]:
        """Ids of new text that will stand at `start`."""
        earlier = [run for run in self.runs if run.start < start]
        before = max(earlier, key=lambda run: run.start).ids[-1] if earlier else None
        opens = all(run.ids == (self.tokenizer.bos_id,) for run in earlier)
        special = before if before in self.tokenizer.special_ids else None
        return encode(self.tokenizer, pieces, before=special, start=opens and not behind_bos)
