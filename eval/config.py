"""What a run is asked to do: defaults, then a YAML file, then flags."""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from promptcache.errors import RequestError


@dataclass(frozen=True)
class EvalConfig:
    """A run's settings. All but `out` decide its results, so a change of one makes another run.

    `datasets` empty: the suite's own choice. `max_length`: tokens of a prompt, None for what the model allows.
    `limit`: records a dataset, None for all there are. `truncate`: `context` or `prompt`, see
    eval/longbench/truncate.py. `repeats`: timed repeats, after `warmup` ones that are thrown away. `options`: what one
    suite alone understands.
    """

    suite: str
    data: Path | None = None
    model: str = "smollm2-135m"
    device: str = "cpu"
    dtype: str = "float32"
    datasets: tuple[str, ...] = ()
    max_length: int | None = None
    limit: int | None = None
    truncate: str = "context"
    repeats: int = 3
    warmup: int = 1
    seed: int = 0
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    out: Path | None = None

    def __post_init__(self) -> None:
        for name, lowest in (("max_length", 1), ("limit", 1), ("repeats", 1), ("warmup", 0)):
            value = getattr(self, name)
            if value is not None and value < lowest:
                raise RequestError(f"{name} is {value}", hint=f"it is a whole number from {lowest} up")
        if self.truncate not in ("context", "prompt"):
            raise RequestError(f"truncate is {self.truncate!r}", hint="it is 'context' or 'prompt'")

    def described(self) -> dict[str, Any]:
        """All that decides results, as JSON values."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self) if field.name != "out"}
        fields |= {"data": self.data and self.data.resolve(), "options": dict(self.options)}
        # Through JSON and back, so that what is read from a run's folder compares equal.
        described: dict[str, Any] = json.loads(json.dumps(fields, default=str))
        return described

    @property
    def digest(self) -> str:
        """Twelve hex digits of what decides results."""
        text = json.dumps(self.described(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def folder(self) -> Path:
        """Where results go: `out`, else `results/<suite>-<digest>`, so that the same command finds them again."""
        return self.out if self.out is not None else Path("results") / f"{self.suite}-{self.digest}"


def build_config(suite: str, file: Path | None, flags: Mapping[str, Any]) -> EvalConfig:
    """The suite's settings from a YAML file, over which flags that are not None win.

    Raises RequestError that names file and key for an unknown key or a value of the wrong kind.
    """
    settings = {**(_read_yaml(file) if file is not None else {}), **_given(flags)}
    return EvalConfig(suite=suite, **{name: _convert(name, value) for name, value in _given(settings).items()})


def _given(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if value is not None}


def _read_yaml(file: Path) -> dict[str, Any]:
    import yaml  # type: ignore[import-untyped]

    try:
        settings = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError(f"{file} cannot be read: {error}", hint="--config takes a YAML file") from error
    except yaml.YAMLError as error:
        raise RequestError(f"{file} is not YAML: {error}", hint="write one `name: value` a line") from error
    if settings is None:
        return {}
    if not isinstance(settings, dict):
        raise RequestError(f"{file} holds no settings", hint="write one `name: value` a line")
    known = [field.name for field in dataclasses.fields(EvalConfig) if field.name != "suite"]
    for key in settings:
        if key not in known:
            close = difflib.get_close_matches(str(key), known, n=1)
            guess = f"did you mean {close[0]!r}? " if close else ""
            raise RequestError(f"{file}: unknown setting {key!r}", hint=f"{guess}settings: {', '.join(known)}")
    return settings


_KINDS: dict[str, tuple[type, ...]] = {
    "data": (str, Path),
    "out": (str, Path),
    "datasets": (str, list),
    "max_length": (int,),
    "limit": (int,),
    "repeats": (int,),
    "warmup": (int,),
    "seed": (int,),
    "options": (dict,),
}


def _convert(name: str, value: Any) -> Any:
    kinds = _KINDS.get(name, (str,))
    if isinstance(value, bool) or not any(isinstance(value, kind) for kind in kinds):
        expected = " or ".join(kind.__name__ for kind in kinds)
        raise RequestError(f"{name} is {value!r}", hint=f"it is a value of kind {expected}")
    if name in ("data", "out"):
        return Path(value).expanduser()
    if name == "datasets":
        names = [str(part).strip() for part in (value.split(",") if isinstance(value, str) else value)]
        return tuple(dict.fromkeys(part for part in names if part))
    return value
