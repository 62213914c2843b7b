"""world.py: the six rooms of the castle, and the doors between them."""

from dataclasses import dataclass, field

from combat import Monster, spawn
from player import Player

OPPOSITE = {"north": "south", "south": "north", "east": "west", "west": "east", "up": "down", "down": "up"}


@dataclass
class Room:
    """A room has exits, items, and perhaps a monster. A dark room needs the lamp."""

    name: str
    text: str
    items: list[str] = field(default_factory=list)
    monster: Monster | None = None
    dark: bool = False
    locked: bool = False
    exits: dict[str, str] = field(default_factory=dict)

    def guarded(self) -> bool:
        return self.monster is not None and self.monster.is_alive()


def build_world() -> dict[str, Room]:
    """All rooms by name."""
    rooms = [
        Room("gate", "The gate of the castle stands open in the rain.", ["lamp"]),
        Room("hall", "The hall has a long oak table and a cold fireplace.", ["bread"]),
        Room("kitchen", "The kitchen is full of copper pots.", ["dagger"], spawn("rat")),
        Room("cellar", "The cellar smells of wine.", ["sword"], spawn("ghost"), dark=True),
        Room("stairs", "The stairs lead up to the tower.", [], spawn("troll")),
        Room("tower", "The tower has one window, and something glitters.", ["crown"], locked=True),
    ]
    world = {room.name: room for room in rooms}
    connect(world, "gate", "north", "hall")
    connect(world, "hall", "east", "kitchen")
    connect(world, "hall", "west", "stairs")
    connect(world, "kitchen", "down", "cellar")
    connect(world, "stairs", "up", "tower")
    return world


def connect(world: dict[str, Room], first: str, direction: str, second: str) -> None:
    """A door that can be used from both sides."""
    world[first].exits[direction] = second
    world[second].exits[OPPOSITE[direction]] = first


def describe(room: Room, player: Player) -> str:
    """What the player sees in a room."""
    if room.dark and "lamp" not in player.bag:
        return "It is too dark. You need the lamp."
    lines = [room.text]
    if room.items:
        lines.append("You see: " + ", ".join(room.items))
    if room.guarded():
        lines.append(room.monster.text)
    lines.append("Exits: " + ", ".join(sorted(room.exits)))
    return "\n".join(lines)
