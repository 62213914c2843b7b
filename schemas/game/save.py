"""save.py: writing a game to a file and reading it back."""

import json
from dataclasses import asdict
from pathlib import Path

from combat import spawn
from player import Player
from world import World, build_world

SAVE_FILE = "lantern_keep.json"
SAVE_VERSION = 3


class SaveError(Exception):
    """Raised when a saved game is missing, damaged or too old."""


def save_game(player: Player, world: World, folder: Path) -> Path:
    """Write the whole game as JSON. The file is replaced only when it is complete."""
    rooms = {
        room.name: {
            "items": room.items,
            "locked": room.locked,
            "monster": room.monster.name if room.monster else None,
            "monster_health": room.monster.health if room.monster else 0,
        }
        for room in world.rooms.values()
    }
    state = {"version": SAVE_VERSION, "player": asdict(player), "rooms": rooms}
    path = folder / SAVE_FILE
    draft = path.with_suffix(".tmp")
    draft.write_text(json.dumps(state, indent=2), encoding="utf-8")
    draft.replace(path)
    return path


def load_game(folder: Path) -> tuple[Player, World]:
    """Read a saved game, or raise SaveError with the reason."""
    path = folder / SAVE_FILE
    if not path.exists():
        raise SaveError("There is no saved game.")
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
        if state["version"] != SAVE_VERSION:
            raise SaveError("The saved game is from another version.")
        player = Player(**state["player"])
        world = build_world()
        for name, saved in state["rooms"].items():
            room = world.rooms[name]
            room.items = list(saved["items"])
            room.locked = saved["locked"]
            if saved["monster"]:
                room.monster = spawn(saved["monster"])
                room.monster.health = saved["monster_health"]
    except (KeyError, TypeError, ValueError) as error:
        raise SaveError("The saved game is damaged.") from error
    return player, world
