"""What states take: the paper's table by its formula, what models really have, and what our store holds of this one.

Nothing is timed.
"""

from __future__ import annotations

from eval.config import EvalConfig
from eval.floor.grid import numbers
from eval.memory.codec_bytes import CODEC_BYTES
from eval.memory.shapes import ModelShape
from eval.memory.stored import measure
from eval.options import check_options
from eval.progress import work_through
from eval.reports.memory import write_report
from eval.results import RunFolder
from promptcache.errors import RequestError
from promptcache.models.loading import LoadedModel, load_model

_TOKENS, _MODULES = 1024, (1, 8)


def run(config: EvalConfig, results: RunFolder) -> None:
    """Measures what is missing, then writes the report."""
    check_options(config, ("tokens", "modules"))
    (tokens,) = numbers("tokens", [config.options.get("tokens", _TOKENS)])
    modules = numbers("modules", config.options.get("modules", _MODULES))
    if modules[-1] > tokens:
        raise RequestError(f"{modules[-1]} modules of {tokens} tokens together", hint="a module has a token at least")
    parts = {f"{codec}/{number}": (codec, number) for number in modules for codec in CODEC_BYTES}
    loaded: LoadedModel | None = None
    for part in work_through(results, list(parts), "memory"):
        loaded = loaded or load_model(config.model, dtype=config.dtype, device=config.device)
        codec, number = parts[part]
        found = measure(loaded, codec, tokens, number, config.seed, results.path / "states")
        shape = ModelShape.of(loaded.model.config, config.dtype)
        by_config = shape.num_bytes * found["tokens"]
        results.add(part, {"codec": codec, "modules": number, "config_bytes": by_config, **found})
    rows = {row["part"]: row for row in results.rows()}
    write_report(results, [rows[part] for part in parts])
