"""A prompt without a schema: everything in it is fresh."""

from __future__ import annotations

from promptcache.errors import LayoutError
from promptcache.layout.dialogue import tail_of
from promptcache.layout.pieces import encode, join
from promptcache.layout.plan import RequestPlan, Run
from promptcache.layout.tokenizer import Tokenizer
from promptcache.pml import BoundPrompt


def plan_plain(prompt: BoundPrompt, tokenizer: Tokenizer, *, layout: str, max_positions: int | None) -> RequestPlan:
    """BOS where the model uses one, then the prompt's text and turns, from position 0."""
    tail, _ = tail_of(prompt, None, tokenizer)
    pieces = join([*(() if tokenizer.bos_id is None else (tokenizer.bos_id,)), *tail.pieces])
    ids = encode(tokenizer, pieces, before=None, start=True)
    if max_positions is not None and len(ids) > max_positions:
        raise LayoutError(
            f"the prompt takes {len(ids)} tokens and the model has {max_positions} positions",
            hint="shorten the prompt",
            span=prompt.span,
        )
    runs = (Run(0, ids, "fresh"),) if ids else ()
    return RequestPlan(None, runs, True, layout, "none")
