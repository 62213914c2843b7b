"""player.py: the player and the things that a player can carry."""

from dataclasses import dataclass, field

START_HEALTH = 30
MAX_ITEMS = 4
BARE_HANDS_DAMAGE = 1


@dataclass(frozen=True)
class Item:
    """A thing to carry. Weapons have damage, food has healing, and everything has a price."""

    name: str
    text: str
    damage: int = 0
    healing: int = 0
    price: int = 0


ITEMS = {
    item.name: item
    for item in (
        Item("lantern", "An oil lantern. Without it the cellar stays dark.", price=5),
        Item("sword", "A long sword with a chipped blade.", damage=7, price=40),
        Item("dagger", "A short dagger, light and quick.", damage=4, price=15),
        Item("bread", "A loaf of dark bread.", healing=6, price=2),
        Item("potion", "A red potion that smells of cherries.", healing=15, price=20),
        Item("key", "A rusty iron key with the number seven on it.", price=1),
        Item("crown", "The lost crown of Queen Isolde.", price=500),
    )
}


class BagFull(Exception):
    """Raised when the player tries to carry more than MAX_ITEMS things."""


@dataclass
class Player:
    """The hero of the game: a name, some health and a small bag."""

    name: str
    health: int = START_HEALTH
    room: str = "gate"
    bag: list[str] = field(default_factory=list)
    moves: int = 0

    def is_alive(self) -> bool:
        return self.health > 0

    def has(self, item_name: str) -> bool:
        return item_name in self.bag

    def take(self, item_name: str) -> None:
        """Put an item into the bag, or raise BagFull."""
        if len(self.bag) >= MAX_ITEMS:
            raise BagFull(f"You cannot carry more than {MAX_ITEMS} things.")
        self.bag.append(item_name)

    def drop(self, item_name: str) -> None:
        self.bag.remove(item_name)

    def eat(self, item_name: str) -> int:
        """Use up food or drink. Returns the health that was really gained."""
        before = self.health
        self.health = min(START_HEALTH, self.health + ITEMS[item_name].healing)
        self.bag.remove(item_name)
        return self.health - before

    def weapon(self) -> Item | None:
        """The best weapon in the bag, or None."""
        weapons = [ITEMS[name] for name in self.bag if ITEMS[name].damage > 0]
        return max(weapons, key=lambda item: item.damage, default=None)

    def damage(self) -> int:
        """How much one blow of the player takes from a monster."""
        weapon = self.weapon()
        return weapon.damage if weapon else BARE_HANDS_DAMAGE

    def wealth(self) -> int:
        """The price of everything in the bag, in silver coins."""
        return sum(ITEMS[name].price for name in self.bag)
