"""The paper's way, which the oracle describes unless a test says otherwise."""

from __future__ import annotations

from typing import Any

from promptcache import PromptCache


def paper_engine(model: Any, tokenizer: Any, **options: Any) -> PromptCache:
    """An engine whose modules are encoded apart and used as they are."""
    return PromptCache(model, tokenizer, **{"encoding": "isolated", "repair": "none", **options})
