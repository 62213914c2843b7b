"""main.py: Lantern Keep, a small text adventure. Run it with: python main.py"""

import random
import sys
from collections.abc import Iterable
from pathlib import Path

from combat import fight_round, flee
from player import ITEMS, BagFull, Player
from save import SaveError, load_game, save_game
from world import build_world

TITLE = "LANTERN KEEP"
GOAL = "Find the lost crown and carry it back to the gate."
HELP = "Commands: look, go, take, drop, eat, attack, flee, bag, save, load, help, quit"
SHORT = {"n": "go north", "s": "go south", "e": "go east", "w": "go west", "u": "go up", "d": "go down", "i": "bag"}


class Game:
    """Reads one command at a time and answers with text."""

    def __init__(self, name: str, folder: Path, seed: int | None = None) -> None:
        self.player = Player(name)
        self.world = build_world()
        self.folder = folder
        self.dice = random.Random(seed)
        self.running = True

    def answer(self, line: str) -> str:
        """Carry out one command. The method do_<word> does the work."""
        line = SHORT.get(line.strip().lower(), line.strip().lower())
        word, _, rest = line.partition(" ")
        command = getattr(self, f"do_{word}", None)
        if command is None:
            return f"I do not know how to {word or 'do nothing'}. Type help."
        text = command(rest.strip())
        if not self.player.is_alive():
            self.running = False
        return text

    def do_look(self, _: str) -> str:
        return self.world.describe(self.player)

    def do_go(self, direction: str) -> str:
        text = self.world.move(self.player, direction)
        if self.player.room == "gate" and self.player.has("crown"):
            self.running = False
            text += f"\nYou have won the game in {self.player.moves} moves!"
        return text

    def do_take(self, item: str) -> str:
        room = self.world.rooms[self.player.room]
        if room.dark and not self.player.has("lantern"):
            return "You cannot find anything in the dark."
        if room.monster and room.monster.is_alive():
            return f"The {room.monster.name} is in the way."
        if item not in room.items:
            return f"There is no {item or 'such thing'} here."
        try:
            self.player.take(item)
        except BagFull as error:
            return str(error)
        room.items.remove(item)
        return f"You take the {item}. {ITEMS[item].text}"

    def do_drop(self, item: str) -> str:
        if not self.player.has(item):
            return f"You do not have a {item or 'thing like that'}."
        self.player.drop(item)
        self.world.rooms[self.player.room].items.append(item)
        return f"You drop the {item}."

    def do_eat(self, item: str) -> str:
        if not self.player.has(item) or ITEMS[item].healing == 0:
            return "You cannot eat that."
        return f"You gain {self.player.eat(item)} health."

    def do_attack(self, _: str) -> str:
        room = self.world.rooms[self.player.room]
        if room.monster is None or not room.monster.is_alive():
            return "There is nobody to fight."
        lines = fight_round(self.player, room.monster, self.dice)
        if not room.monster.is_alive() and room.monster.loot:
            room.items.append(room.monster.loot)
            lines.append(f"It leaves a {room.monster.loot} behind.")
        return "\n".join(lines)

    def do_flee(self, _: str) -> str:
        if self.player.room == "gate":
            return "You are already at the gate."
        self.player.room = "hall"
        return flee(self.player)

    def do_bag(self, _: str) -> str:
        things = ", ".join(self.player.bag) or "nothing"
        return f"Health: {self.player.health}. You carry {things}, worth {self.player.wealth()} silver coins."

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
    play(Game("Robin", folder=Path.cwd()), sys.stdin)
