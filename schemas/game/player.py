"""player.py: the player, and the things that can be carried."""

from dataclasses import dataclass, field

# The size of the bag is four items.
BAG_SIZE = 4
# The health of the player is 30 points at the start.
START_HEALTH = 30


@dataclass(frozen=True)
class Item:
    """A thing: weapons have damage, food has healing."""

    text: str
    damage: int = 0
    healing: int = 0


ITEMS = {
    "lamp": Item("The oil lamp gives light in the cellar."),
    "sword": Item("The sword belonged to Sir Roland.", damage=8),
    "dagger": Item("The dagger is short and rusty.", damage=4),
    "bread": Item("The bread is old, but it can be eaten.", healing=6),
    "potion": Item("The potion is red and smells of cherries.", healing=15),
    "key": Item("The iron key opens the door of the tower."),
    "crown": Item("The crown belonged to Queen Isolde."),
}


@dataclass
class Player:
    """The hero: a name, health, a place and a bag."""

    name: str
    health: int = START_HEALTH
    room: str = "gate"
    bag: list[str] = field(default_factory=list)

    def is_alive(self) -> bool:
        return self.health > 0

    def take(self, item: str) -> bool:
        """Put an item into the bag. Returns False when the bag is full."""
        if len(self.bag) >= BAG_SIZE:
            return False
        self.bag.append(item)
        return True

    def eat(self, item: str) -> int:
        """Use up food. Returns the health that was gained."""
        before = self.health
        self.health = min(START_HEALTH, self.health + ITEMS[item].healing)
        self.bag.remove(item)
        return self.health - before

    def damage(self) -> int:
        """The damage of the best weapon in the bag, or 1 for bare hands."""
        return max([ITEMS[item].damage for item in self.bag] + [1])
