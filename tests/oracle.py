"""The oracle: what reuse must equal, computed by the stock model in one forward pass under an explicit mask.

Only torch and the model itself are used here, nothing of promptcache: a fault there cannot hide here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

FRESH = "fresh"


@dataclass(frozen=True)
class Token:
    """One input token of the one-pass reference.

    `group` names the encoding pass in which its state was computed, FRESH for tokens computed with the request. A
    `ghost` is there only because its group saw it while being encoded (a placeholder, a copy of BOS).
    """

    id: int
    position: int
    group: str = FRESH
    ghost: bool = False

    def __post_init__(self) -> None:
        if self.ghost and self.group == FRESH:
            raise ValueError("a ghost belongs to an encoding pass, never to the request")


Sees = Callable[[Token, Token], bool]


def tokens(ids: Sequence[int], start: int, group: str = FRESH, *, ghost: bool = False) -> list[Token]:
    """`ids` at consecutive positions from `start`."""
    return [Token(i, start + n, group, ghost) for n, i in enumerate(ids)]


def sees_by_position(query: Token, key: Token) -> bool:
    """The rule of isolated encoding, for two different tokens.

    What was encoded saw its own pass below itself, ghosts included; what is fresh sees everything real below itself.
    """
    if key.position >= query.position:
        return False
    return not key.ghost if query.group == FRESH else key.group == query.group


def additive_mask(tokens: Sequence[Token], sees: Sees, *, window: int | None, dtype: torch.dtype) -> Tensor:
    """0 where the row's token sees the column's, else `finfo.min`: [1, 1, len(tokens), len(tokens)].

    Every token sees itself. A `window` of w hides tokens that lie w or more positions back (positions, not slots).
    """
    if sees is sees_by_position:
        visible = _visible_by_position(tokens)
    else:
        visible = torch.tensor([[sees(q, k) for k in tokens] for q in tokens], dtype=torch.bool)
    if window is not None:
        places = torch.tensor([t.position for t in tokens])
        visible &= places[:, None] - places < window
    visible |= torch.eye(len(tokens), dtype=torch.bool)
    return torch.zeros((1, 1, *visible.shape), dtype=dtype).masked_fill(~visible, torch.finfo(dtype).min)


def _visible_by_position(tokens: Sequence[Token]) -> Tensor:
    """`sees_by_position` for all pairs at once: thousands of tokens have millions of them."""
    places = torch.tensor([t.position for t in tokens])
    numbers = {group: n for n, group in enumerate(dict.fromkeys(t.group for t in tokens))}
    groups = torch.tensor([numbers[t.group] for t in tokens])
    real, fresh = (torch.tensor(flags) for flags in ([not t.ghost for t in tokens], [t.group == FRESH for t in tokens]))
    return (places < places[:, None]) & torch.where(fresh[:, None], real, groups == groups[:, None])


@contextmanager
def stock_attention(model: Any) -> Iterator[None]:
    """Takes an attention function that someone set on the model off it for the time being."""
    found = model.config._attn_implementation
    if found in ("sdpa", "eager"):
        yield
        return
    model.set_attn_implementation("sdpa")
    try:
        yield
    finally:
        model.set_attn_implementation(found)


@torch.no_grad()
def oracle_logits(model: Any, tokens: Sequence[Token], sees: Sees | None = None) -> Tensor:
    """Logits of every token, in the order given: float32 [len(tokens), vocab_size].

    A model that an engine holds is run with stock attention, and given back as it was. The order of `tokens` decides
    nothing. Two real tokens at one position, or two of one group, are a mistake of the caller: ValueError.
    """
    for view in {None, *(t.group for t in tokens)}:
        places = Counter(t.position for t in tokens if (not t.ghost if view is None else t.group == view))
        if twice := [p for p, count in places.items() if count > 1]:
            raise ValueError(f"positions used by two tokens: {sorted(twice)}")
    with stock_attention(model):
        out = model(
            input_ids=torch.tensor([[t.id for t in tokens]]),
            position_ids=torch.tensor([[t.position for t in tokens]]),
            # A mask is never left out: without one, transformers takes a gap in the positions for packed sequences.
            attention_mask=additive_mask(tokens, sees or sees_by_position, window=None, dtype=model.dtype),
            use_cache=False,
        )
    return out.logits[0].float()


def fresh_rows(tokens: Sequence[Token]) -> list[int]:
    """The rows of the fresh tokens, by position."""
    return sorted((n for n, t in enumerate(tokens) if t.group == FRESH), key=lambda n: tokens[n].position)


def next_token_logits(model: Any, tokens: Sequence[Token], sees: Sees | None = None) -> Tensor:
    """Logits of the first new token: float32 [vocab_size].

    They come from the last real token, which every request computes: ValueError when it is not a fresh one.
    """
    last = max((n for n, t in enumerate(tokens) if not t.ghost), key=lambda n: tokens[n].position)
    if tokens[last].group != FRESH:
        raise ValueError(f"the last token, at position {tokens[last].position}, is not fresh")
    return oracle_logits(model, tokens, sees)[last]


def full_prefill_logits(model: Any, ids: Sequence[int], positions: Sequence[int]) -> Tensor:
    """Logits of a plain full prefill, nothing reused: float32 [len(ids), vocab_size]."""
    return oracle_logits(model, [Token(i, p) for i, p in zip(ids, positions, strict=True)])
