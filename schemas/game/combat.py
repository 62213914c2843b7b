"""combat.py: the monsters, and one round of a fight."""

import random
from dataclasses import dataclass, replace

from player import Player

# The chance to miss is 20 percent.
MISS_CHANCE = 0.2


@dataclass
class Monster:
    """A creature that guards a room. It strikes only when it is attacked."""

    name: str
    text: str
    health: int
    damage: int
    loot: str | None = None

    def is_alive(self) -> bool:
        return self.health > 0


RAT = Monster("rat", "A fat rat guards the cheese.", health=5, damage=2)
GHOST = Monster("ghost", "A pale ghost sings an old song.", health=12, damage=4, loot="potion")
TROLL = Monster("troll", "A stone troll guards the stairs.", health=24, damage=6, loot="key")
MONSTERS = {monster.name: monster for monster in (RAT, GHOST, TROLL)}


def spawn(name: str) -> Monster:
    """A fresh copy of a monster."""
    return replace(MONSTERS[name])


def fight_round(player: Player, monster: Monster, dice: random.Random) -> str:
    """The player strikes first. If the monster still lives, it strikes back."""
    if dice.random() < MISS_CHANCE:
        text = f"You miss the {monster.name}."
    else:
        monster.health -= player.damage()
        text = f"You hit the {monster.name}."
    if not monster.is_alive():
        return f"{text} The {monster.name} is dead."
    if dice.random() < MISS_CHANCE:
        return f"{text} The {monster.name} misses you."
    player.health -= monster.damage
    return f"{text} The {monster.name} hits you for {monster.damage}."
