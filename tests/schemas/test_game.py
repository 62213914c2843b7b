"""The game runs, can be won, and survives being saved."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.schemas.repository import SCHEMAS

PLAY = [
    *("take lamp", "go north", "take bread", "go east", *["fight"] * 12, "take dagger"),
    *("go down", *["fight"] * 8, "take sword", "drop dagger", "take potion", "eat bread", "eat potion"),
    *("go up", "go west", "go west", *["fight"] * 8, "take key", "go up", "take crown", "save", "load"),
    *("go down", "go east", "go south"),
]

SEEDED = """
import sys
from pathlib import Path
from main import Game, play
play(Game("Robin", folder=Path.cwd(), seed=3), sys.stdin)
"""


def run(tmp_path: Path, lines: list[str], *, code: str | None = None) -> str:
    command = [sys.executable, "-B", *(["-c", code] if code else [SCHEMAS / "game" / "main.py"])]
    done = subprocess.run(
        command,
        input="\n".join(lines),
        cwd=tmp_path,
        env={"PYTHONPATH": str(SCHEMAS / "game")},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0 and done.stderr == ""
    return done.stdout


def test_it_ends_with_its_input(tmp_path: Path) -> None:
    assert "Exits: north" in run(tmp_path, [])


def test_it_can_be_won(tmp_path: Path) -> None:
    assert run(tmp_path, PLAY, code=SEEDED).endswith("You have won the game!\n")


def test_odd_commands_change_nothing(tmp_path: Path) -> None:
    odd = [
        "",
        "  ",
        "dance",
        "go",
        "go nowhere",
        "take",
        "take gate",
        "eat",
        "eat lamp",
        "drop",
        "drop x",
        "load",
        "fight",
    ]
    said = run(tmp_path, [*odd, "bag", "quit"])
    assert "Health 30. Bag: empty." in said and said.endswith("Good night.\n")


def test_a_saved_game_comes_back(tmp_path: Path) -> None:
    run(tmp_path, ["take lamp", "go north", "save"])
    said = run(tmp_path, ["load", "bag"])
    assert "oak table" in said and "Bag: lamp." in said


def test_a_damaged_save_is_told(tmp_path: Path) -> None:
    for text in ("", "[]", "{}", '{"version": 2}', '{"version": 3, "player": 1, "rooms": []}'):
        (tmp_path / "castle.json").write_text(text, encoding="utf-8")
        assert "The saved game is" in run(tmp_path, ["load"])
