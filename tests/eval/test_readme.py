"""The commands of eval/README.md are ones that exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from eval.__main__ import _parser
from eval.config import build_config
from eval.registry import find_suite

ROOT = Path(__file__).resolve().parents[2]


def test_every_command_parses_and_every_suite_can_be_imported() -> None:
    text = (ROOT / "eval" / "README.md").read_text(encoding="utf-8")
    commands = re.findall(r"`python -m eval ([a-z][^`]*)`", text)
    assert len(commands) >= 5
    for command in commands:
        flags = vars(_parser().parse_args(shlex.split(command)))
        suite, file = flags.pop("suite"), flags.pop("config")
        build_config(suite, file and ROOT / file, flags)
        assert hasattr(find_suite(suite), "run")
    assert {"ttft", "quality", "gaps"} <= {command.split()[0] for command in commands}
