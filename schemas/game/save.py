"""save.py: writing the game to a file, and reading it back."""

import json
from dataclasses import asdict
from pathlib import Path

from combat import Monster
from player import Player
from world import Room

# The name of the save file is castle.json.
SAVE_FILE = "castle.json"
SAVE_VERSION = 3


class SaveError(Exception):
    """Raised when a saved game is missing, damaged or too old."""


def save_game(player: Player, world: dict[str, Room], folder: Path) -> Path:
    """Write the game as JSON. The old file is replaced only by a complete new one."""
    rooms = {name: asdict(room) for name, room in world.items()}
    state = {"version": SAVE_VERSION, "player": asdict(player), "rooms": rooms}
    path = folder / SAVE_FILE
    draft = path.with_suffix(".tmp")
    draft.write_text(json.dumps(state, indent=2), encoding="utf-8")
    draft.replace(path)
    return path


def load_game(folder: Path) -> tuple[Player, dict[str, Room]]:
    """Read the saved game, or raise SaveError with the reason."""
    path = folder / SAVE_FILE
    if not path.exists():
        raise SaveError("There is no saved game.")
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
        if state["version"] != SAVE_VERSION:
            raise SaveError("The saved game is from another version.")
        world = {name: Room(**room) for name, room in state["rooms"].items()}
        for room in world.values():
            if room.monster is not None:
                room.monster = Monster(**room.monster)
        return Player(**state["player"]), world
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise SaveError("The saved game is damaged.") from error
