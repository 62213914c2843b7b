"""Text that has nothing to do with a prompt: what stands in a module's place where its content shall be missing."""

from __future__ import annotations

from collections.abc import Sequence

from promptcache.layout.text.tokenizer import Tokenizer

_TEXTS = (
    "Rain fell on the hills all night, and in the morning the river had risen above the old bridge. Nobody in the "
    "valley had seen so much water since the spring of the long snow.\n",
    "To change the filter, switch the machine off and open the lid. Lift the grey clip, pull the filter out, rinse it "
    "under cold water and put it back when it is dry.\n",
    "The committee met again in the autumn. It heard two reports on the cost of the new roads, asked for a third, and "
    "put the vote off until the members from the north could come.\n",
    "Most birds of this family build their nests in holes. They lay four to six white eggs, feed on insects and seeds, "
    "and stay in the same forest through the winter.\n",
    "Light from a distant star is spread by a prism into a band of colours. Dark lines in it tell which gases the "
    "light has passed, and how fast the star moves away from us.\n",
)
"""Each of a kind of its own, and without people that a pronoun could mean."""


def unrelated(tokenizer: Tokenizer, ids: Sequence[int]) -> list[tuple[int, ...]]:
    """Other texts in the place of `ids`, each to the token as long and with the same special tokens; a short text is
    said again."""
    found = []
    for text in _TEXTS:
        said = tokenizer.encode(text, behind=None, start=False)
        # The end is what stands right before the text behind it, so that is whole.
        other = (said * (len(ids) // len(said) + 1))[-len(ids) :]
        found.append(tuple(own if own in tokenizer.special_ids else new for own, new in zip(ids, other, strict=True)))
    return found
