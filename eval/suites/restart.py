"""What a restart costs: a process that encodes a schema and answers, and one that finds it stored.

Each repeat is two new processes on one new folder. Then each codec: bytes on disk, and what it changes in the
predictions of the reply that plain states gave.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import torch

from eval.config import EvalConfig
from eval.engine import ENCODING, REPAIR
from eval.fidelity import compare
from eval.hook import MeasurementError
from eval.options import check_options
from eval.progress import work_through
from eval.reports.restart import write_report
from eval.restart_process import Task, arguments
from eval.results import RunFolder
from promptcache import PromptCache, StoreConfig
from promptcache.errors import RequestError
from promptcache.models.loading import load_model

_SCHEMAS = ("trip", "game", "handbook")
_CODECS = ("none", "bf16", "int8")
_WARM = 5


def run(config: EvalConfig, results: RunFolder) -> None:
    """Measures what is missing, then writes the report. `--datasets` names schemas of the folder `--data`."""
    check_options(config, ())
    folder = config.data or Path("schemas")
    names = config.datasets or _SCHEMAS
    restarts = [f"{name}/{codec}/{repeat}" for name in names for codec in _CODECS for repeat in range(config.repeats)]
    codecs = [f"{name}/{codec}/change" for name in names for codec in _CODECS]
    bench = _Bench(config, folder, results.path / "states")
    for part in work_through(results, [*restarts, *codecs], "restart"):
        name, codec, what = part.split("/")
        values = bench.change(name, codec) if what == "change" else bench.restart(name, codec)
        results.add(part, {"schema": name, "codec": codec, **values})
    write_report(results)


class _Bench:
    """Processes on a folder of their own, and engines in this one."""

    def __init__(self, config: EvalConfig, folder: Path, states: Path) -> None:
        self._config, self._folder, self._states = config, folder, states
        self._model: Any = None
        self._plain: dict[str, tuple[list[int], torch.Tensor]] = {}

    def restart(self, name: str, codec: str) -> dict[str, Any]:
        """Two processes. Raises MeasurementError when the second ran a reused token, or answers otherwise."""
        shutil.rmtree(self._states, ignore_errors=True)
        task = Task(
            self._config.model,
            self._config.dtype,
            str(self._schema(name)),
            str(self._prompt(name)),
            str(self._states),
            codec,
            _WARM,
        )
        first, second = self._process(task), self._process(task)
        num_bytes = sum(path.stat().st_size for path in self._states.glob("*.safetensors"))
        shutil.rmtree(self._states, ignore_errors=True)
        fresh = second["prompt_tokens"] - second["reused_tokens"]
        if second["encoded_tokens"] or second["computed_tokens"] != fresh or not first["encoded_tokens"]:
            raise MeasurementError(f"{name}: the second process ran {second['computed_tokens']} tokens, not {fresh}")
        if first["token_ids"] != second["token_ids"]:
            raise MeasurementError(f"{name}: the second process gives another reply")
        return {"encoding": first, "restart": second, "num_bytes": num_bytes}

    def change(self, name: str, codec: str) -> dict[str, Any]:
        """How far the codec moves the predictions of the plain reply's tokens."""
        ids, plain = self._plain_reply(name)
        found = self._engine(name, codec).continuation_logits(self._prompt(name), ids)
        targets = torch.tensor(ids)
        moved, still = compare(plain, found, targets), compare(plain, plain, targets)
        return {
            "reply_tokens": moved.tokens,
            "kl": moved.mean_kl,
            "nll_change": moved.nll - still.nll,
            "same_top": moved.top1,
        }

    def _plain_reply(self, name: str) -> tuple[list[int], torch.Tensor]:
        if name not in self._plain:
            engine, prompt = self._engine(name, "none"), self._prompt(name)
            ids = list(engine.generate(prompt, max_new_tokens=32).token_ids)
            self._plain[name] = ids, engine.continuation_logits(prompt, ids)
        return self._plain[name]

    def _engine(self, name: str, codec: str) -> PromptCache:
        self._model = self._model or load_model(self._config.model, dtype=self._config.dtype)
        config = StoreConfig(disk_bytes=0, codec=codec)
        engine = PromptCache(self._model.model, self._model.tokenizer, encoding=ENCODING, repair=REPAIR, store=config)
        engine.load_schema(self._schema(name))
        return engine

    def _process(self, task: Task) -> dict[str, Any]:
        done = subprocess.run(arguments(task), capture_output=True, text=True)
        if done.returncode:
            raise MeasurementError(f"a process of {task.schema} failed:\n{done.stderr[-2000:]}")
        measured: dict[str, Any] = json.loads(done.stdout)
        return measured

    def _schema(self, name: str) -> Path:
        return self._folder / f"{name}.xml"

    def _prompt(self, name: str) -> Path:
        """The first of the schema's prompts."""
        found = sorted((self._folder / f"{name}.prompts").glob("*.xml"))
        if not found:
            raise RequestError(f"{self._folder} holds no prompt for {name}", hint=f"put one into {name}.prompts/")
        return found[0]
