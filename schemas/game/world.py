"""world.py: the rooms of Lantern Keep, and the doors between them."""

from dataclasses import dataclass, field

from combat import Monster, spawn
from player import Player

OPPOSITE = {"north": "south", "south": "north", "east": "west", "west": "east", "up": "down", "down": "up"}


@dataclass
class Room:
    """One place of the keep. Exits map a direction to the name of another room."""

    name: str
    text: str
    exits: dict[str, str] = field(default_factory=dict)
    items: list[str] = field(default_factory=list)
    monster: Monster | None = None
    dark: bool = False
    locked: bool = False


class World:
    """All rooms, by name."""

    def __init__(self) -> None:
        self.rooms: dict[str, Room] = {}

    def add(self, room: Room) -> None:
        self.rooms[room.name] = room

    def connect(self, first: str, direction: str, second: str) -> None:
        """A door that can be used from both sides."""
        self.rooms[first].exits[direction] = second
        self.rooms[second].exits[OPPOSITE[direction]] = first

    def describe(self, player: Player) -> str:
        """What the player sees in the room where they stand."""
        room = self.rooms[player.room]
        if room.dark and not player.has("lantern"):
            return "It is too dark to see anything. You need a lantern."
        lines = [f"== {room.name} ==", room.text]
        if room.items:
            lines.append("You see: " + ", ".join(room.items))
        if room.monster and room.monster.is_alive():
            lines.append(room.monster.text)
        lines.append("Exits: " + ", ".join(sorted(room.exits)))
        return "\n".join(lines)

    def move(self, player: Player, direction: str) -> str:
        """Walk through a door, if there is one and nothing stands in the way."""
        room = self.rooms[player.room]
        if direction not in room.exits:
            return "You cannot go that way."
        if room.monster and room.monster.is_alive() and room.exits[direction] != "hall":
            return f"The {room.monster.name} will not let you pass."
        target = self.rooms[room.exits[direction]]
        if target.locked and not player.has("key"):
            return f"The door to the {target.name} is locked. You need a key."
        target.locked = False
        player.room = target.name
        player.moves += 1
        return self.describe(player)


def build_world() -> World:
    """The six rooms of Lantern Keep."""
    world = World()
    world.add(Room("gate", "The gate of the keep hangs open. Rain drips from the arch.", items=["lantern"]))
    world.add(Room("hall", "A great hall with a cold fireplace and a long oak table.", items=["bread"]))
    world.add(Room("kitchen", "Copper pots hang over a dead stove.", items=["dagger"], monster=spawn("rat")))
    world.add(Room("cellar", "Barrels, cobwebs and a rack of weapons.", items=["sword"], dark=True))
    world.add(Room("stairs", "A winding stair leads up into the tower.", monster=spawn("troll")))
    world.add(Room("tower", "A round room with one window. Something glitters.", items=["crown"], locked=True))
    world.connect("gate", "north", "hall")
    world.connect("hall", "east", "kitchen")
    world.connect("hall", "west", "stairs")
    world.connect("kitchen", "down", "cellar")
    world.connect("stairs", "up", "tower")
    world.rooms["cellar"].monster = spawn("ghost")
    return world
