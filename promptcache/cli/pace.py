"""How long encoding a schema will take here, from two short passes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from promptcache.errors import LayoutError
from promptcache.pml import Prompt

if TYPE_CHECKING:
    from promptcache.engine import PromptCache

_WORDS = 256


def encoding_estimate_ms(engine: PromptCache, pass_lengths: Iterable[int]) -> float:
    """Milliseconds for passes of these lengths in tokens: a fixed cost a pass plus a cost a token.

    Attention's quadratic part is left out, so long modules on small models take longer than this says.
    """
    words = _WORDS
    while words > 8 and not _fits(engine, words):
        words //= 2
    (few, short_ms), (many, long_ms) = (_timed(engine, count) for count in (words // 8, words))
    per_token = max(long_ms - short_ms, 0.0) / (many - few)
    per_pass = max(short_ms - per_token * few, 0.0)
    return sum(per_pass + per_token * length for length in pass_lengths)


def _prompt(words: int) -> Prompt:
    return Prompt(text="word " * words)


def _fits(engine: PromptCache, words: int) -> bool:
    try:
        engine.plan(_prompt(words))
    except LayoutError:
        return False
    return True


def _timed(engine: PromptCache, words: int) -> tuple[int, float]:
    """The tokens and the milliseconds of a prefill; the better of two, since the first call warms up."""
    done = [engine.generate(_prompt(words), max_new_tokens=1) for _ in range(2)]
    return done[0].usage.prompt_tokens, min(each.timings.prefill_ms for each in done)
