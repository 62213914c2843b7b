"""One process of the `restart` suite: load a schema, answer, and say how long it took, as one JSON line.

Called as `python -m eval.restart_process JSON`, with the settings of `Task`. It is a process of its own so that nothing
is warm but what the first process left on disk, and the system's page cache.
"""

from __future__ import annotations

import dataclasses
import json
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval.engine import ENCODING, REPAIR
from eval.hook import TokenHook
from promptcache import PromptCache, StoreConfig


@dataclass(frozen=True)
class Task:
    """`repeats` are the warm requests after the first one."""

    model: str
    dtype: str
    schema: str
    prompt: str
    store: str
    codec: str
    repeats: int


def measure(task: Task) -> dict[str, Any]:
    """Milliseconds of loading the schema and of the first request, those of warm ones, and what the model ran."""
    config = StoreConfig(path=task.store, codec=task.codec)
    engine = PromptCache.from_pretrained(task.model, dtype=task.dtype, encoding=ENCODING, repair=REPAIR, store=config)
    prompt = Path(task.prompt)
    with TokenHook(engine.model) as hook:
        start = time.perf_counter()
        loaded = engine.load_schema(Path(task.schema))
        load_ms = (time.perf_counter() - start) * 1000
        encoded, hook.passes = sum(hook.passes), []
        first = engine.generate(prompt, max_new_tokens=1)
        ready_ms = (time.perf_counter() - start) * 1000
        computed = sum(hook.passes)
    warm = [engine.generate(prompt, max_new_tokens=1).timings.ttft_ms for _ in range(task.repeats)]
    return {
        "stored_tokens": loaded.num_tokens,
        "encoded_tokens": encoded,
        "load_ms": load_ms,
        "ready_ms": ready_ms,
        "prompt_tokens": first.usage.prompt_tokens,
        "reused_tokens": first.usage.reused_tokens,
        "computed_tokens": computed,
        "first_ms": first.timings.ttft_ms,
        "warm_ms": statistics.median(warm),
        "token_ids": list(engine.generate(prompt, max_new_tokens=32).token_ids),
    }


def arguments(task: Task) -> list[str]:
    """The command that measures it in a process of its own."""
    return [sys.executable, "-m", "eval.restart_process", json.dumps(dataclasses.asdict(task))]


if __name__ == "__main__":
    print(json.dumps(measure(Task(**json.loads(sys.argv[1])))))
