"""Many prompts over one schema: one copy for all of them, against one by one."""

from __future__ import annotations

import time
from typing import Any

from eval.engine import loaded
from eval.floor.text import split_evenly
from eval.gpu.bench import Bench
from eval.gpu.clock import Clock

_REPEATS = 2
"""At most: one by one, sixteen replies take a quarter of a minute."""


def measure(bench: Bench, clock: Clock) -> dict[str, Any]:
    """Milliseconds of all prompts, one by one and as one batch: until all first tokens are there, and until all replies
    are. `equal` is the share of replies whose tokens are the same: in half precision they need not be."""
    settings = bench.settings
    engine, modules = bench.engine("device"), settings.modules
    prompts = [bench.prompt(modules, number) for number in range(settings.rows)]

    def one_by_one(new_tokens: int) -> list[tuple[int, ...]]:
        return [engine.generate(prompt, max_new_tokens=new_tokens).token_ids for prompt in prompts]

    def together(new_tokens: int) -> list[tuple[int, ...]]:
        done = engine.generate_batch(prompts, max_batch=len(prompts), max_new_tokens=new_tokens)
        return [each.token_ids for each in done]

    times: dict[str, list[float]] = {}
    with loaded(engine, bench.schema(bench.texts(split_evenly(settings.batch_context, modules)))):
        one_by_one(2), together(2)
        for number in range(min(bench.config.repeats, _REPEATS)):
            started = clock.left()
            replies = {}
            ways = (("one by one", one_by_one), ("batch", together))
            for name, run in ways if number % 2 else ways[::-1]:
                for what, new_tokens in (("first", 1), ("all", settings.new_tokens)):
                    start = time.perf_counter()
                    replies[name] = run(new_tokens)
                    times.setdefault(f"{name}, {what}", []).append((time.perf_counter() - start) * 1000)
            if clock.left() < 2 * (started - clock.left()):
                break
    pairs = zip(replies["one by one"], replies["batch"], strict=True)
    return {
        "rows": settings.rows,
        "context": settings.batch_context,
        "fresh": settings.fresh,
        "new_tokens": settings.new_tokens,
        "ms": times,
        "equal": sum(a == b for a, b in pairs) / settings.rows,
    }
