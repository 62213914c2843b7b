"""Every model family on tiny random models: reuse beside the oracle of the tests, in float32 and in bfloat16."""

from __future__ import annotations

import copy
from itertools import product
from typing import Any

import torch

from eval.config import EvalConfig
from eval.engine import ENCODING, IN_MEMORY, REPAIR
from eval.options import check_options
from eval.progress import work_through
from eval.results import RunFolder
from eval.table import markdown_table
from promptcache import PromptCache
from promptcache.errors import RequestError

try:
    from tests.engine.family_steps import beside_oracle
    from tests.families import FAMILIES, family_model
    from tests.family_oracle import PROMPT, SCHEMA, SHORT, given, last_logits
    from tests.tiny import byte_tokenizer
except ImportError as fault:
    raise RequestError(
        "the suite families needs the project's tests", hint="run it from the project's folder"
    ) from fault

_STEPS = 8


def run(config: EvalConfig, results: RunFolder) -> None:
    """Measures what is missing, then writes the report."""
    check_options(config, ())
    for name in work_through(results, list(FAMILIES), "families"):
        results.add(name, _measure(name))
    rows = {row["part"]: row for row in results.rows()}
    results.write_report(_report([rows[name] for name in FAMILIES]))


def _measure(name: str) -> dict[str, Any]:
    """Errors of all layouts, paths and prompts. `rounding` is what float32 changes the oracle itself by; `diverged` has
    the first greedy token, counted from 1, that differs from the oracle's in bfloat16, with the margin of the oracle's
    two best tokens there and how far its logits are from float32's."""
    family, half = FAMILIES[name], family_model(name, torch.bfloat16)
    exact, single = copy.deepcopy(family_model(name)).double(), copy.deepcopy(half).float()
    error = rounding = 0.0
    diverged: list[dict[str, float]] = []
    for layout, path, prompt in product(family.layouts, family.paths, (PROMPT, SHORT)):
        engine, asked = _engine(name, torch.float32, layout, path), given(layout, prompt)
        for found, right in beside_oracle(engine, family, prompt, asked, _STEPS):
            error = max(error, _largest(found - right))
            rounding = max(rounding, _largest(right - last_logits(exact, family, asked)))
        engine, asked = _engine(name, torch.bfloat16, layout, path), given(layout, prompt)
        for step, (found, right) in enumerate(beside_oracle(engine, family, prompt, asked, _STEPS)):
            if int(found.argmax()) != int(right.argmax()):
                noise, margin = _largest(right - last_logits(single, family, asked)), right.topk(2).values.diff()
                diverged.append({"token": step + 1, "margin": _largest(margin), "noise": noise})
                break
    return {"error": error, "rounding": rounding, "diverged": diverged}


def _largest(differences: torch.Tensor) -> float:
    return float(differences.abs().max())


def _engine(name: str, dtype: torch.dtype, layout: str, path: str) -> PromptCache:
    engine = PromptCache(
        family_model(name, dtype),
        byte_tokenizer(),
        encoding=ENCODING,
        repair=REPAIR,
        layout=layout,
        attention=path,
        store=IN_MEMORY,
    )
    engine.load_schema(SCHEMA)
    return engine


def _report(rows: list[dict[str, Any]]) -> str:
    headers = ("family", "positions", "layouts", "attention", "error", "rounding", "first divergence, bfloat16")
    cells = []
    for row in rows:
        family = FAMILIES[row["part"]]
        first = min(row["diverged"], key=lambda each: each["token"], default=None)
        told = f"token {first['token']}: margin {first['margin']:.2g}, noise {first['noise']:.2g}" if first else "none"
        numbers = (f"{row['error']:.1e}", f"{row['rounding']:.1e}")
        paths, layouts = ", ".join(family.paths), ", ".join(family.layouts)
        cells.append((row["part"], family.positions, layouts, paths, *numbers, told))
    return markdown_table(headers, cells)
