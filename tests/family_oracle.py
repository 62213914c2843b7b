"""The oracle for families whose masks need more than one pass under one mask, and one small request to put to all.

Only torch, transformers' cache and the model are used here, nothing of promptcache: a fault there cannot hide here.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from tests.families import Family
from tests.oracle import FRESH, Token, additive_mask, sees_by_position, stock_attention, tokens
from tests.tiny import UNK

SCHEMA = (
    '<schema name="s">Be brief.<module name="plan">Stay <parameter name="days" length="6" scaffold="two"/> days. '
    '<module name="deep">nested</module>So.</module>'
    '<union><module name="x">short</module><module name="y">a much longer one, beyond any window</module></union>'
    '<module name="end">The end</module></schema>'
)
PROMPT = '<prompt schema="s"><plan days="3"/><y/><end/>Why?</prompt>'
SHORT = '<prompt schema="s"><plan days="3"/><x/><end/>Why?</prompt>'


def given(layout: str, prompt: str) -> list[Token]:
    """What `prompt` is, token by token: ids, positions, and what was encoded together, written out by hand."""
    union = b"a much longer one, beyond any window" if prompt == PROMPT else b"short"
    if layout == "reserved":
        return [
            *tokens(b"Be brief.", 0, "text"),
            *tokens(b"Stay", 9, "plan"),
            *tokens([*b" two", UNK, UNK], 13, "plan", ghost=True),
            *tokens(b" 3", 13),
            *tokens(b" days. ", 19, "plan"),
            *tokens(b"So.", 32, "plan"),
            *tokens(union, 35, "union"),
            *tokens(b"The end", 71, "end"),
            *tokens(b"Why?", 78),
        ]
    behind = 25 + len(union)
    return [
        *tokens(b"Be brief.", 0, "text"),
        *tokens(b"Stay", 9, "plan"),
        *tokens(b" 3", 13),
        # What stands behind the shorter argument saw the placeholder, and what is before it, as near as when encoded.
        *tokens([*b"Stay two", UNK, UNK], 5, "moved", ghost=True),
        *tokens(b" days. So.", 15, "moved"),
        *tokens(union, 25, "union"),
        *tokens(b"The end", behind, "end"),
        *tokens(b"Why?", behind + 7),
    ]


def last_logits(model: Any, family: Family, asked: Sequence[Token]) -> Tensor:
    """Logits behind the last token: float32 [vocab_size]."""
    return _by_passes(model, asked) if family.positions == "ALiBi" else _one_pass(model, family, asked)


@torch.no_grad()
def _one_pass(model: Any, family: Family, asked: Sequence[Token]) -> Tensor:
    masks = {w: additive_mask(asked, sees_by_position, window=w, dtype=model.dtype) for w in set(family.windows)}
    mask: Any = masks[family.windows[0]]
    if len(masks) > 1:
        mask = {kind: masks[w] for kind, w in zip(model.config.layer_types, family.windows, strict=True)}
    with stock_attention(model):
        out = model(
            input_ids=torch.tensor([[t.id for t in asked]]),
            position_ids=torch.tensor([[t.position for t in asked]]),
            attention_mask=mask,
            use_cache=False,
        )
    last = max((n for n, t in enumerate(asked) if not t.ghost), key=lambda n: asked[n].position)
    return out.logits[0, last].float()


@torch.no_grad()
def _by_passes(model: Any, asked: Sequence[Token]) -> Tensor:
    """Each group in a pass of its own, then the prompt in the order of its positions, fresh tokens run by run. Such
    models know no positions but the order in the cache."""
    states: dict[Token, list[tuple[Tensor, Tensor]]] = {}
    for group in {t.group for t in asked} - {FRESH}:
        encoded = sorted((t for t in asked if t.group == group), key=lambda t: t.position)
        cache = model(input_ids=torch.tensor([[t.id for t in encoded]]), use_cache=True).cache
        for slot, token in enumerate(encoded):
            at = slice(slot, slot + 1)
            states[token] = [(layer.keys[:, :, at], layer.values[:, :, at]) for layer in cache.layers]
    cache = DynamicCache()
    real = sorted((t for t in asked if not t.ghost), key=lambda t: t.position)
    for fresh, run in groupby(real, key=lambda t: t.group == FRESH):
        if fresh:
            logits = model(input_ids=torch.tensor([[t.id for t in run]]), cache=cache, use_cache=True).logits
            continue
        for token in run:
            for layer, (key, value) in enumerate(states[token]):
                cache.update(key, value, layer)
    return logits[0, -1].float()
