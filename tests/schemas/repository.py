"""The schemas of the repository, and the prompts beside them."""

from __future__ import annotations

import re
from pathlib import Path

SCHEMAS = Path(__file__).resolve().parents[2] / "schemas"
NAMES = ("game", "handbook", "persona", "trip")
TIMED = ("game", "handbook", "trip")
PROMPTS = sorted(SCHEMAS.glob("*.prompts/*.xml"))


def prompts_of(name: str) -> list[Path]:
    """The prompts of a schema."""
    return sorted((SCHEMAS / f"{name}.prompts").glob("*.xml"))


def answer_of(prompt: Path) -> str | None:
    """The right answer, which stands in a comment of the prompt; None for a prompt without one."""
    found = re.search(r"<!-- Answer: (.+) -->", prompt.read_text(encoding="utf-8"))
    return found[1] if found else None


def title(path: Path) -> str:
    """A prompt's name in a test report."""
    return f"{path.parent.stem}/{path.stem}"
