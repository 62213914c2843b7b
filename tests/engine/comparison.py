"""One request put to the engine and to the oracle, and everything that must agree."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from promptcache import Prompt, PromptCache
from promptcache.runtime.states import segmented
from tests.oracle import FRESH, Sees, Token, full_prefill_logits, next_token_logits
from tests.paper import paper_engine
from tests.tiny import byte_tokenizer, tiny_llama

TOLERANCE = 1e-4


def byte_engine(
    *, bos: bool = False, encoding: str = "isolated", layout: str = "reserved", **model: Any
) -> PromptCache:
    """An engine over a tiny Llama whose token ids are bytes."""
    return paper_engine(tiny_llama(**model), byte_tokenizer(bos=bos), encoding=encoding, layout=layout)


def distance(a: torch.Tensor, b: torch.Tensor) -> float:
    """The largest difference of two tensors."""
    return float((a - b).abs().max())


def expect(model: Any, given: Sequence[Token], sees: Sees | None = None) -> tuple[torch.Tensor, float]:
    """The oracle's logits of the first new token, and how close reuse must come.

    That is 1e-4, and twice what float32 moves the oracle itself: a few tokens can condition a tiny model so badly that
    two right ways to the same logits are 1e-4 apart.
    """
    logits = next_token_logits(model, given, sees)
    rounding = distance(logits, next_token_logits(copy.deepcopy(model).double(), given, sees))
    assert rounding < 10 * TOLERANCE
    return logits, TOLERANCE + 2 * rounding


def shifted_by(model: Any, given: Sequence[Token], shift: int) -> float:
    """How far the stock model's logits move when the whole prompt stands `shift` positions later: its angles are
    float32, so that a state moved by as much cannot be held to less."""
    moved = [replace(token, position=token.position + shift) for token in given]
    return distance(next_token_logits(model, given), next_token_logits(model, moved))


def agrees(
    engine: PromptCache,
    schema: str,
    prompt: str | Prompt,
    given: Sequence[Token],
    sees: Sees | None = None,
    *,
    exact: bool = False,
) -> None:
    """Asserts that the engine answers as the oracle does for `given`, whose ids and positions the plan must have too.

    `exact`: whether the result is that of a full prefill. Where it is not, the two must differ visibly: a case that
    cannot tell them apart shows nothing.
    """
    real = sorted((t for t in given if not t.ghost), key=lambda t: t.position)
    ids, positions = [t.id for t in real], [t.position for t in real]
    expected, limit = expect(engine.model, given, sees)
    full = full_prefill_logits(engine.model, ids, positions)[-1]

    engine.load_schema(schema, replace=True)
    plan = engine.plan(prompt)
    assert list(plan.token_ids) == ids
    assert list(plan.position_ids) == positions
    limit += 2 * max((shifted_by(engine.model, given, run.shift) for run in plan.runs if run.shift), default=0)
    computed = [p for run in plan.runs if run.kind != "reused" for p in range(run.start, run.start + run.length)]
    assert computed == [t.position for t in real if t.group == FRESH]

    first, second = engine.logits(prompt), engine.logits(prompt)
    assert first.dtype == torch.float32 and first.shape == expected.shape
    assert distance(first, expected) < limit
    assert torch.equal(first, second), "the second time must give the same"
    assert distance(engine.logits(prompt, reuse=False), full) < limit

    # Short segments are gathered; each must also be right where it lies.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segmented, "GATHERED_TOKENS", 0)
        assert distance(engine.logits(prompt), expected) < limit
    assembled = paper_engine(
        engine.model, engine.tokenizer, encoding=engine.encoding, layout=engine.layout, attention="assembled"
    )
    assembled.load_schema(schema)
    assert distance(assembled.logits(prompt), expected) < limit

    done = engine.generate(prompt, max_new_tokens=1)
    assert done.exact is exact
    assert done.usage.fresh_tokens + done.usage.repaired_tokens == len(computed)
    assert done.usage.reused_tokens + len(computed) == done.usage.prompt_tokens == len(real)
    if exact:
        assert distance(first, full) < limit
    else:
        assert distance(expected, full) > 100 * TOLERANCE, "this case cannot tell reuse from a full prefill"
