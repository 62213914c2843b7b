"""Continuations of a prompt as one tree, so that what they share is computed once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class TokenTree:
    """The tokens that must be run to score continuations: those that another token follows.

    Node i is `ids[i]` behind node `parents[i]` (-1: behind the prompt), `depths[i]` tokens behind the prompt's last; a
    parent stands before its children. `rows[c][k]` is the node whose logits predict token k of continuation c, -1 for
    the prompt's last token.
    """

    ids: tuple[int, ...]
    parents: tuple[int, ...]
    depths: tuple[int, ...]
    rows: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, continuations: Sequence[Sequence[int]]) -> TokenTree:
        """The tree of continuations, none of them empty. Their order changes nothing but `rows`'."""
        assert all(continuations), "a continuation has at least one token"
        inner = sorted({tuple(tokens[:length]) for tokens in continuations for length in range(1, len(tokens))})
        number = {prefix: i for i, prefix in enumerate(inner)} | {(): -1}
        return cls(
            ids=tuple(prefix[-1] for prefix in inner),
            parents=tuple(number[prefix[:-1]] for prefix in inner),
            depths=tuple(len(prefix) for prefix in inner),
            rows=tuple(tuple(number[tuple(tokens[:k])] for k in range(len(tokens))) for tokens in continuations),
        )

    def __len__(self) -> int:
        return len(self.ids)

    def ancestors(self) -> list[list[int]]:
        """For each node the nodes that it sees: those above it, and itself."""
        seen: list[list[int]] = []
        for node, parent in enumerate(self.parents):
            seen.append([*(seen[parent] if parent >= 0 else ()), node])
        return seen
