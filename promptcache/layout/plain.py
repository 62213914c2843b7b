"""A prompt without a schema: everything in it is fresh."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from promptcache.errors import LayoutError
from promptcache.layout.plan import RequestPlan, Run
from promptcache.layout.text.dialogue import Tail, tail_of
from promptcache.layout.text.pieces import encode, join, trailing_special
from promptcache.layout.text.tokenizer import Tokenizer
from promptcache.pml import BoundPrompt


def plain_tail(prompt: BoundPrompt, tokenizer: Tokenizer) -> Tail:
    """BOS where the model uses one, then the prompt's text and turns. Raises TurnError."""
    tail, _ = tail_of(prompt, None, tokenizer)
    bos = () if tokenizer.bos_id is None else (tokenizer.bos_id,)
    return replace(tail, pieces=join([*bos, *tail.pieces]))


def plain_ids(tail: Tail, tokenizer: Tokenizer) -> tuple[int, ...]:
    """Ids of the whole prompt."""
    return encode(tokenizer, tail.pieces, before=None, start=not tail.behind_bos)


def continued_ids(tail: Tail, tokenizer: Tokenizer, continuations: Sequence[str]) -> list[tuple[int, ...]]:
    """Ids of the whole prompt with each of these texts behind it, tokenized as one."""
    last = tail.pieces[-1] if tail.pieces else None
    head, text = (tail.pieces[:-1], last) if isinstance(last, str) else (tail.pieces, "")
    start = not tail.behind_bos
    ids = encode(tokenizer, head, before=None, start=start)
    opens = start and all(piece == tokenizer.bos_id for piece in head)
    texts = [text + continuation for continuation in continuations]
    return [(*ids, *rest) for rest in tokenizer.encode_all(texts, behind=trailing_special(head), start=opens)]


def plan_plain(prompt: BoundPrompt, tokenizer: Tokenizer, *, layout: str, max_positions: int | None) -> RequestPlan:
    """The prompt's ids from position 0. Raises LayoutError where the model has no room, TurnError."""
    ids = plain_ids(plain_tail(prompt, tokenizer), tokenizer)
    if max_positions is not None and len(ids) > max_positions:
        raise LayoutError(
            f"the prompt takes {len(ids)} tokens and the model has {max_positions} positions",
            hint="shorten the prompt",
            span=prompt.span,
        )
    return plan_of_ids(ids, layout)


def plan_of_ids(ids: tuple[int, ...], layout: str) -> RequestPlan:
    """All of these ids fresh, from position 0."""
    return RequestPlan(None, (Run(0, ids, "fresh"),) if ids else (), True, layout, "none")
