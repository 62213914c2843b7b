"""Reuse on this device against the stock model in one pass under an explicit mask."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from eval.engine import loaded
from eval.gpu.bench import Bench
from eval.stock_model import stock_attention
from promptcache import Prompt

_STEPS = 4

_FLOAT32_LIMIT, _UNITS, _NOISES = 1e-3, 16.0, 4.0
"""How far logits may be off, over their spread: in float32 so much; else so many units in the last place, or so many
times what one unit in the input embeddings moves the stock model, whichever is more."""

LAYOUTS = ("reserved", "compact")


def check(bench: Bench, placement: str, layout: str) -> dict[str, Any]:
    """The last token's logits and those of some tokens behind it, in one pass and by decode steps. Figures are over the
    spread of the oracle's logits: `error` of reuse, what is allowed (`limit`), and how far a full prefill is
    (`contrast`), in which modules see each other: a check that could not tell these apart would show nothing."""
    engine, sizes = bench.engine(placement), bench.settings.oracle
    texts = bench.texts(sizes)
    # One module is left out. In the reserved layout its positions stay free; in the compact one the others are moved.
    imported = (0, 2, 3) if layout == "reserved" else (3, 0, 2)
    question = bench.question().encode()
    forced = list(b"and so")[: _STEPS + 1]
    ids: list[int] = []
    positions: list[int] = []
    groups: list[int] = []
    for module in imported:
        start = sum(sizes[:module]) if layout == "reserved" else len(positions)
        ids += texts[module].encode()
        positions += range(start, start + sizes[module])
        groups += [module] * sizes[module]
    new = [*question, *forced[:-1]]
    behind = max(positions) + 1
    ids += new
    positions += range(behind, behind + len(new))
    groups += [-1] * len(new)
    masks = _masks(positions, groups, bench.model)
    oracle, full = (_logits(bench.model, ids, positions, mask) for mask in masks)
    prompt = Prompt(schema="gpu", imports=[f"m{n}" for n in imported], text=question.decode())
    with loaded(engine, bench.schema(texts), layout):
        plan = engine.plan(prompt)
        as_written = list(plan.token_ids) == ids[: 1 - len(forced)] and (
            list(plan.position_ids) == positions[: 1 - len(forced)]
        )
        in_one_pass = engine.continuation_logits(prompt, forced)
        state = engine._requests.assemble(engine._planned(prompt, True), room=len(forced))
        by_steps = torch.stack([state.prefill()[-1], *(state.step(token) for token in forced[:-1])])
    spread = float(oracle.std().clamp_min(1e-6))
    noise = _distance(_logits(bench.model, ids, positions, masks[0], noisy=True), oracle) / spread
    limit = _FLOAT32_LIMIT
    if bench.model.dtype != torch.float32:
        limit = max(_UNITS * torch.finfo(bench.model.dtype).eps, _NOISES * noise)
    errors = [_distance(found, oracle) / spread for found in (in_one_pass, by_steps)]
    contrast = _distance(full, oracle) / spread
    return {
        "placement": placement,
        "layout": layout,
        "tokens": len(ids),
        "error": errors[0],
        "step_error": errors[1],
        "noise": noise,
        "limit": limit,
        "contrast": contrast,
        "passed": as_written and max(errors) <= limit < contrast,
    }


def _masks(positions: list[int], groups: list[int], model: Any) -> tuple[Tensor, Tensor]:
    """Additive [1, 1, tokens, tokens]: what each saw when it was computed, and all that stands before it."""
    places, owners = (torch.tensor(each, device=model.device) for each in (positions, groups))
    before = places <= places[:, None]
    reuse = before & ((owners == owners[:, None]) | (owners[:, None] < 0))
    lowest = torch.finfo(model.dtype).min
    hidden = (torch.zeros(before.shape, dtype=model.dtype, device=model.device) for _ in range(2))
    first, second = (
        mask.masked_fill_(~seen, lowest)[None, None] for mask, seen in zip(hidden, (reuse, before), strict=True)
    )
    return first, second


def _logits(model: Any, ids: list[int], positions: list[int], mask: Tensor, *, noisy: bool = False) -> Tensor:
    """Of the prompt's last token and those behind it: float32 [_STEPS + 1, vocab_size]."""
    with stock_attention(model):
        embeddings = model.get_input_embeddings()(torch.tensor([ids], device=model.device))
        if noisy:
            signs = torch.rand(embeddings.shape, device=model.device).round() * 2 - 1
            embeddings = (embeddings.float() * (1 + torch.finfo(model.dtype).eps * signs)).to(model.dtype)
        output = model(
            inputs_embeds=embeddings,
            position_ids=torch.tensor([positions], device=model.device),
            attention_mask=mask,
            use_cache=False,
            logits_to_keep=_STEPS + 1,
        )
        logits: Tensor = output.logits[0].float()
        return logits


def _distance(found: Tensor, expected: Tensor) -> float:
    return float((found - expected).abs().max())
