"""A run's folder. What is finished is on disk at once, so a run that was killed goes on where it was.

config.json      what was asked
sessions.jsonl   one line each time the run was started: machine, versions, commit
parts.jsonl      one line for each finished part, in the order of finishing
report.md, *.png written by the suite at its end
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from eval.config import EvalConfig
from eval.machine import machine_facts
from promptcache.errors import RequestError
from promptcache.source import Source, Span


class RunFolder:
    """The results of one configuration. One process writes to it at a time."""

    def __init__(self, path: Path, config: EvalConfig) -> None:
        """Opens the folder, or makes it. Raises RequestError when it holds another configuration's run."""
        self.path = path
        self.config = config
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RequestError(
                f"{path} cannot be a results folder: {error}", hint="choose another one with --out"
            ) from error
        self._claim()
        self._parts = {row["part"]: row for row in _read_lines(path / "parts.jsonl")}
        self.session = sum(1 for _ in _read_lines(path / "sessions.jsonl"))
        _append(path / "sessions.jsonl", {"session": self.session, "started": _now(), **machine_facts()})

    def _claim(self) -> None:
        file, asked = self.path / "config.json", self.config.described()
        if file.exists():
            try:
                found = json.loads(file.read_text(encoding="utf-8"))
            except ValueError as error:
                raise RequestError(f"{file} is not JSON", hint="choose another folder with --out") from error
            if found != asked:
                changed = sorted(name for name in asked if found.get(name) != asked[name])
                raise RequestError(
                    f"{self.path} holds a run with other settings: {', '.join(changed)}",
                    hint="choose another folder with --out, or leave --out away",
                )
            return
        # Whole or not at all: a half-written file would shut the folder.
        draft = file.with_suffix(".json.tmp")
        draft.write_text(json.dumps(asked, indent=2, sort_keys=True) + "\n", encoding="utf-8")
        draft.replace(file)

    def __contains__(self, part: str) -> bool:
        return part in self._parts

    def pending(self, parts: Iterable[str]) -> list[str]:
        """Those of the parts that are not finished, in the order given."""
        return [part for part in parts if part not in self._parts]

    def add(self, part: str, values: Mapping[str, Any]) -> None:
        """Marks a part as finished, with its figures. They are on disk when this returns."""
        assert part not in self._parts, f"{part} was finished before"
        row = {"part": part, "session": self.session, **values}
        _append(self.path / "parts.jsonl", row)
        self._parts[part] = row

    def rows(self) -> Iterator[dict[str, Any]]:
        """All finished parts, with `part` and `session` beside their figures."""
        yield from self._parts.values()

    def sessions(self) -> list[dict[str, Any]]:
        """What each session stood on."""
        return list(_read_lines(self.path / "sessions.jsonl"))

    def write_report(self, text: str) -> Path:
        """Puts the report into the folder and returns its path."""
        file = self.path / "report.md"
        file.write_text(text, encoding="utf-8")
        return file


def _append(file: Path, row: Mapping[str, Any]) -> None:
    # Not a number and infinity are no JSON, and no result either.
    line = json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n"
    with file.open("ab") as out:
        out.write(line.encode("utf-8"))
        out.flush()
        os.fsync(out.fileno())


def _read_lines(file: Path) -> Iterator[dict[str, Any]]:
    """The lines of a file that may not exist. Half a last line, left by a killed run, is cut off the file."""
    if not file.exists():
        return
    data = file.read_bytes()
    whole = data[: data.rfind(b"\n") + 1]
    if len(whole) < len(data):
        os.truncate(file, len(whole))
    for number, line in enumerate(whole.split(b"\n")[:-1], 1):
        try:
            row = json.loads(line)
        except ValueError as error:
            raise RequestError(
                "this line is not JSON, so the run cannot go on from here",
                hint="delete the line; its part is then computed again",
                span=Span(Source(str(file), ""), number, 1),
            ) from error
        yield row


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")
