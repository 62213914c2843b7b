"""Policy `compact`: a prompt's tokens are numbered without gaps, and stored states move to where they are needed."""

from __future__ import annotations

from promptcache.errors import LayoutError
from promptcache.layout.compact_prompt import place, place_texts
from promptcache.layout.encoding import Encoded, Placed
from promptcache.layout.encoding import encoding as find_encoding
from promptcache.layout.key import KeyContext
from promptcache.layout.layout import SchemaLayout
from promptcache.layout.placed import PlacedText
from promptcache.layout.places import Places
from promptcache.layout.plan import RequestPlan
from promptcache.layout.tokenize import tokenize
from promptcache.layout.tokenizer import Tokenizer
from promptcache.layout.tree import SchemaTree
from promptcache.pml import BoundPrompt, Schema


class Compact:
    """Modules have no place of their own: only the prompt, not the schema, must fit the model. Beyond the paper."""

    name = "compact"
    relocates = True

    def lay_out(
        self, schema: Schema, tokenizer: Tokenizer, *, encoding: str, context: KeyContext, max_positions: int | None
    ) -> SchemaLayout:
        """See LayoutPolicy."""
        tree = tokenize(schema, tokenizer)
        places = Places(tree.root)
        placed = Placed(places.segments, places.parameters, relocatable=True)
        encoded = find_encoding(encoding)(tree, placed, tokenizer.bos_id, context)
        _refuse_long_passes(tree, encoded, max_positions)
        return SchemaLayout(
            schema=schema,
            tree=tree,
            policy=self.name,
            encoding=encoding,
            passes=encoded.passes,
            segments=encoded.segments,
            segment_starts=places.segments,
            starts=places.modules,
            parameters=places.parameters,
            num_positions=places.end,
            scaffolds=encoded.scaffolds,
            notes=(*schema.notes, *tree.notes),
        )

    def plan(
        self, layout: SchemaLayout, prompt: BoundPrompt, tokenizer: Tokenizer, *, max_positions: int | None
    ) -> RequestPlan:
        """See LayoutPolicy."""
        return place(layout, prompt, tokenizer, max_positions)

    def texts(self, layout: SchemaLayout, prompt: BoundPrompt, tokenizer: Tokenizer) -> tuple[PlacedText, ...]:
        """See LayoutPolicy."""
        return place_texts(layout, prompt, tokenizer)


def _refuse_long_passes(tree: SchemaTree, encoded: Encoded, max_positions: int | None) -> None:
    groups = (encoded.segments, *(scaffold.segments for scaffold in encoded.scaffolds))
    owners = {segment.encoding_pass: segment.owner for group in groups for segment in group.values()}
    spans = {module.path: module.span for module in tree.root.walk()}
    for number, made in enumerate(encoded.passes):
        if max_positions is not None and len(made.ids) > max_positions:
            path = owners[number]
            what = f"module {path!r}" if path else "the schema's own text"
            raise LayoutError(
                f"schema {tree.name!r}: {what} is encoded in a pass of {len(made.ids)} tokens "
                f"and the model has {max_positions} positions",
                hint="split it into several modules",
                span=spans[path],
            )
