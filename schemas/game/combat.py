"""combat.py: the monsters, and how a fight is fought round by round."""

import random
from dataclasses import dataclass, replace

from player import Player

DOUBLE_DAMAGE_CHANCE = 0.10
MISS_CHANCE = 0.20
FLEE_COST = 3


@dataclass
class Monster:
    """A creature that guards a room. It attacks only when it is attacked."""

    name: str
    text: str
    health: int
    damage: int
    loot: str | None = None

    def is_alive(self) -> bool:
        return self.health > 0


MONSTERS = {
    monster.name: monster
    for monster in (
        Monster("rat", "A fat grey rat shows its teeth.", health=5, damage=2),
        Monster("ghost", "A pale ghost hums an old song.", health=12, damage=4, loot="potion"),
        Monster("troll", "A stone troll blocks the stairs.", health=25, damage=6, loot="key"),
    )
}


def spawn(name: str) -> Monster:
    """A fresh copy of a monster, so that every game has its own."""
    return replace(MONSTERS[name])


def blow(damage: int, dice: random.Random) -> int:
    """The damage of one blow: it may miss, and with luck it counts twice."""
    luck = dice.random()
    if luck < MISS_CHANCE:
        return 0
    if luck > 1 - DOUBLE_DAMAGE_CHANCE:
        return 2 * damage
    return damage


def fight_round(player: Player, monster: Monster, dice: random.Random) -> list[str]:
    """The player strikes first. If the monster still lives, it strikes back."""
    lines = []
    dealt = blow(player.damage(), dice)
    monster.health -= dealt
    lines.append(f"You hit the {monster.name} for {dealt}." if dealt else f"You miss the {monster.name}.")
    if not monster.is_alive():
        lines.append(f"The {monster.name} is dead.")
        return lines
    taken = blow(monster.damage, dice)
    player.health -= taken
    lines.append(f"The {monster.name} hits you for {taken}." if taken else f"The {monster.name} misses you.")
    if not player.is_alive():
        lines.append("You are dead. The keep falls silent again.")
    return lines


def flee(player: Player) -> str:
    """Running away costs a little health, but never the last point."""
    player.health = max(1, player.health - FLEE_COST)
    return f"You run, and lose {FLEE_COST} health on the way."
