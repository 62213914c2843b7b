"""What repaired tokens do to an oracle's tokens, and where attention falls in it."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import dropwhile
from typing import Any

import torch

from tests.oracle import FRESH, Sees, Token, additive_mask, sees_by_position


def repair_tokens(given: Sequence[Token], positions: Collection[int]) -> list[Token]:
    """The real tokens at these positions are computed with the request; what their pass saw of them stays as ghosts."""
    found = []
    for token in given:
        if token.position in positions and not token.ghost and token.group != FRESH:
            found += [Token(token.id, token.position), Token(token.id, token.position, token.group, ghost=True)]
        else:
            found.append(token)
    return found


@torch.no_grad()
def attention_of_fresh(
    model: Any, given: Sequence[Token], sees: Sees | None = None, *, rows: Collection[int] | None = None
) -> dict[int, float]:
    """By position of each real token: the stock model's eager attention weights from fresh tokens (at the positions
    `rows`), summed over layers, heads and fresh tokens; `given` as for the oracle."""
    eager = copy.deepcopy(model)
    eager.set_attn_implementation("eager")
    out = eager(
        input_ids=torch.tensor([[t.id for t in given]]),
        position_ids=torch.tensor([[t.position for t in given]]),
        attention_mask=additive_mask(given, sees or sees_by_position, window=None, dtype=model.dtype),
        use_cache=False,
        output_attentions=True,
    )
    fresh = [n for n, t in enumerate(given) if t.group == FRESH and (rows is None or t.position in rows)]
    mass = sum(layer[0][:, fresh].sum((0, 1)) for layer in out.attentions)
    return {t.position: float(mass[n]) for n, t in enumerate(given) if not t.ghost}


def in_order(given: Sequence[Token], mass: Mapping[int, float], candidates: Iterable[int]) -> list[int]:
    """The candidates' positions by what `query` goes by, first that of the most: the attention `mass` on a token over
    one more than the tokens before it in what its pass stored, placeholders between them included. `given`: the tokens
    before anything is repaired."""
    place: dict[int, int] = {}
    for group in {t.group for t in given} - {FRESH}:
        members = sorted((t for t in given if t.group == group), key=lambda t: t.position)
        stored = list(dropwhile(lambda t: t.ghost, members))
        place |= {token.position: number for number, token in enumerate(stored) if not token.ghost}
    return sorted(candidates, key=lambda p: -mass[p] / (1 + place[p]))
