"""Policy `compact`: a prompt's tokens are numbered without gaps, and stored states move to where they are needed."""

from __future__ import annotations

from promptcache.errors import LayoutError
from promptcache.layout.encodings.key import KeyContext
from promptcache.layout.layout import SchemaLayout, laid_out
from promptcache.layout.places import Places
from promptcache.layout.plan import RequestPlan
from promptcache.layout.policies.compact_prompt import place, place_texts
from promptcache.layout.text.placed import PlacedText
from promptcache.layout.text.tokenize import tokenize
from promptcache.layout.text.tokenizer import Tokenizer
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
        made = laid_out(
            schema,
            tree,
            Places(tree.root),
            policy=self.name,
            relocates=self.relocates,
            encoding=encoding,
            bos_id=tokenizer.bos_id,
            context=context,
        )
        _refuse_long_passes(made, max_positions)
        return made

    def plan(
        self, layout: SchemaLayout, prompt: BoundPrompt, tokenizer: Tokenizer, *, max_positions: int | None
    ) -> RequestPlan:
        """See LayoutPolicy."""
        return place(layout, prompt, tokenizer, max_positions)

    def texts(self, layout: SchemaLayout, prompt: BoundPrompt, tokenizer: Tokenizer) -> tuple[PlacedText, ...]:
        """See LayoutPolicy."""
        return place_texts(layout, prompt, tokenizer)


def _refuse_long_passes(layout: SchemaLayout, max_positions: int | None) -> None:
    owners = {segment.encoding_pass: segment.owner for segment in layout.stored}
    for number, made in enumerate(layout.passes):
        if max_positions is not None and len(made.ids) > max_positions:
            path = owners[number]
            what = f"module {path!r}" if path else "the schema's own text"
            raise LayoutError(
                f"schema {layout.name!r}: {what} is encoded in a pass of {len(made.ids)} tokens "
                f"and the model has {max_positions} positions",
                hint="split it into several modules",
                span=layout.modules[path].span,
            )
