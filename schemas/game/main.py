"""main.py: the text adventure Silver Castle. Run it with: python main.py

The game was written by Mara Lindgren in 2019.
"""

import random
import sys
from collections.abc import Iterable
from pathlib import Path

from combat import fight_round
from player import ITEMS, Player
from save import SaveError, load_game, save_game
from world import Room, build_world, describe

TITLE = "Silver Castle"
HERO = "Robin"
GOAL = "Find the lost crown and carry it back to the gate."
HELP = "Commands: look, go, take, drop, eat, fight, bag, save, load, help, quit"


class Game:
    """Reads one command at a time and answers with text."""

    def __init__(self, name: str, folder: Path, seed: int | None = None) -> None:
        self.player = Player(name)
        self.world = build_world()
        self.folder = folder
        self.dice = random.Random(seed)
        self.running = True

    def room(self) -> Room:
        return self.world[self.player.room]

    def answer(self, line: str) -> str:
        """Carry out one command. The method do_<word> does the work."""
        word, _, rest = line.strip().lower().partition(" ")
        command = getattr(self, f"do_{word}", None)
        return command(rest.strip()) if command else "I do not understand. Type help."

    def do_look(self, _: str) -> str:
        return describe(self.room(), self.player)

    def do_go(self, direction: str) -> str:
        """Walk through a door. A monster lets the player only go back."""
        room = self.room()
        target = self.world.get(room.exits.get(direction, ""))
        if target is None:
            return "You cannot go that way."
        if room.guarded() and target.name not in ("hall", "kitchen"):
            return f"The {room.monster.name} will not let you pass."
        if target.locked and "key" not in self.player.bag:
            return "The door is locked. You need the key."
        self.player.room = target.name
        if target.name == "gate" and "crown" in self.player.bag:
            self.running = False
            return "You have won the game!"
        return self.do_look("")

    def do_take(self, item: str) -> str:
        room = self.room()
        if room.guarded():
            return f"The {room.monster.name} is in the way."
        if item not in room.items:
            return "That is not here."
        if not self.player.take(item):
            return "The bag is full."
        room.items.remove(item)
        return f"Taken. {ITEMS[item].text}"

    def do_drop(self, item: str) -> str:
        if item not in self.player.bag:
            return "You do not have that."
        self.player.bag.remove(item)
        self.room().items.append(item)
        return "Dropped."

    def do_eat(self, item: str) -> str:
        if item not in self.player.bag or not ITEMS[item].healing:
            return "You cannot eat that."
        return f"You gain {self.player.eat(item)} health."

    def do_fight(self, _: str) -> str:
        room = self.room()
        if not room.guarded():
            return "There is nobody to fight."
        text = fight_round(self.player, room.monster, self.dice)
        if not self.player.is_alive():
            self.running = False
            return f"{text} You are dead."
        if not room.guarded() and room.monster.loot:
            room.items.append(room.monster.loot)
        return text

    def do_bag(self, _: str) -> str:
        return f"Health {self.player.health}. Bag: {', '.join(self.player.bag) or 'empty'}."

    def do_save(self, _: str) -> str:
        return f"Saved as {save_game(self.player, self.world, self.folder).name}."

    def do_load(self, _: str) -> str:
        try:
            self.player, self.world = load_game(self.folder)
        except SaveError as error:
            return str(error)
        return self.do_look("")

    def do_help(self, _: str) -> str:
        return HELP

    def do_quit(self, _: str) -> str:
        self.running = False
        return "Good night."


def play(game: Game, lines: Iterable[str]) -> None:
    """Show the first room, then answer lines until the game or the input ends."""
    print(f"{TITLE}\n{GOAL}\n{HELP}\n\n{game.do_look('')}")
    for line in lines:
        print(game.answer(line))
        if not game.running:
            break


if __name__ == "__main__":
    play(Game(HERO, folder=Path.cwd()), sys.stdin)
