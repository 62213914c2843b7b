"""Policy `reserved`: every element has the range of positions that the schema fixes (the paper, section 3.3)."""

from __future__ import annotations

from promptcache.errors import LayoutError
from promptcache.layout.encodings.key import KeyContext
from promptcache.layout.layout import SchemaLayout, laid_out
from promptcache.layout.places import Places
from promptcache.layout.plan import RequestPlan
from promptcache.layout.policies.reserved_prompt import place, place_texts
from promptcache.layout.text.placed import PlacedText
from promptcache.layout.text.tokenize import tokenize
from promptcache.layout.text.tokenizer import Tokenizer
from promptcache.layout.text.tree import SchemaTree
from promptcache.pml import BoundPrompt, Schema


class Reserved:
    """A module starts where the tokens before it end, counted with every earlier module, the longest member of every
    earlier union and every parameter's full length."""

    name = "reserved"
    relocates = False

    def lay_out(
        self, schema: Schema, tokenizer: Tokenizer, *, encoding: str, context: KeyContext, max_positions: int | None
    ) -> SchemaLayout:
        """See LayoutPolicy."""
        tree = tokenize(schema, tokenizer)
        places = Places(tree.root)
        if max_positions is not None and places.end > max_positions:
            raise _too_long(tree, places, max_positions)
        return laid_out(
            schema,
            tree,
            places,
            policy=self.name,
            relocates=self.relocates,
            encoding=encoding,
            bos_id=tokenizer.bos_id,
            context=context,
        )

    def plan(
        self, layout: SchemaLayout, prompt: BoundPrompt, tokenizer: Tokenizer, *, max_positions: int | None
    ) -> RequestPlan:
        """See LayoutPolicy."""
        return place(layout, prompt, tokenizer, max_positions)

    def texts(self, layout: SchemaLayout, prompt: BoundPrompt, tokenizer: Tokenizer) -> tuple[PlacedText, ...]:
        """See LayoutPolicy."""
        return place_texts(layout, prompt, tokenizer)


def _too_long(tree: SchemaTree, places: Places, limit: int) -> LayoutError:
    crossing = tree.root
    for module in tree.root.walk():
        if places.modules[module.path] + module.length > limit:
            crossing = module
            if not any(places.modules[m.path] + m.length > limit for m in module.children()):
                break
    what = f"module {crossing.path!r}" if crossing.path else "the schema's own text"
    start = places.modules[crossing.path]
    return LayoutError(
        f"schema {tree.name!r} spans {places.end} positions and the model has {limit}; "
        f"{what} crosses the limit (positions {start} to {start + crossing.length - 1})",
        hint="put modules that exclude each other into a <union>, or load the schema with layout='compact', "
        "where only the prompt must fit",
        span=crossing.span,
    )
