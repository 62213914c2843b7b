"""Short encoding passes side by side in one forward pass, where each alone costs more than its tokens do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch

from promptcache.layout.encodings.encoding import EncodingPass

PACKED_TOKENS = 1024
"""Passes are joined up to so many tokens, or what a mask hides, and is computed all the same, costs more than joining
saves. Measured on two cores with a 135M model: 40 modules of 17 tokens, encoded apart, took 0.37, 0.37 and 0.43 of the
time of a pass each with 256, 512 and 1,024; behind a text of 87 tokens 0.30, 0.24 and 0.21; four of 260 tokens 0.94 to
1.0."""


class Pack:
    """Passes that run as one forward pass, each with what it would see alone in view. Tokens that several of them begin
    with, at the same positions, and do not store are there once."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.positions: list[int] = []
        self._blocks: list[int] = []  # for each token; a block is what one pass adds, or what several begin with
        self._before: list[int] = []  # for each block: the one that its tokens see as well, or itself
        self._fronts: dict[EncodingPass, int] = {}  # the blocks that passes begin with
        self._starts: dict[int, int] = {}  # for each pass: the slot of its first token, had it its front to itself

    @property
    def passes(self) -> tuple[int, ...]:
        """Their numbers."""
        return tuple(self._starts)

    def length_with(self, encoding_pass: EncodingPass, seen: int) -> int:
        """Tokens, had it this pass as well."""
        return len(self.ids) + len(encoding_pass.ids) - (seen if _part(encoding_pass, 0, seen) in self._fronts else 0)

    def add(self, number: int, encoding_pass: EncodingPass, seen: int) -> None:
        """Takes in a pass that stores none of its first `seen` tokens."""
        front, rest = _part(encoding_pass, 0, seen), _part(encoding_pass, seen, len(encoding_pass.ids))
        if seen and front not in self._fronts:
            self._fronts[front] = self._append(front)
        self._starts[number] = len(self.ids) - seen
        self._append(rest, self._fronts.get(front))

    def slot(self, number: int, offset: int) -> int:
        """Where a token of a pass is, of those behind what it only sees."""
        return self._starts[number] + offset

    def visibility(self, dtype: torch.dtype) -> torch.Tensor | None:
        """Additive [tokens, tokens]; None for one pass, where order says it all."""
        if len(self._starts) == 1:
            return None
        blocks = torch.tensor(self._blocks)
        before = torch.tensor(self._before)[blocks]
        seen = ((blocks[:, None] == blocks) | (before[:, None] == blocks)).tril()
        return torch.zeros(seen.shape, dtype=dtype).masked_fill_(~seen, torch.finfo(dtype).min)

    def _append(self, part: EncodingPass, before: int | None = None) -> int:
        block = len(self._before)
        self.ids += part.ids
        self.positions += part.positions
        self._blocks += [block] * len(part.ids)
        self._before.append(block if before is None else before)
        return block


def packs(passes: Iterable[tuple[int, EncodingPass, int]], most: int) -> Iterator[Pack]:
    """(number, pass, the tokens at its front that are only seen), in packs of at most `most` tokens; longer passes run
    alone."""
    pack = Pack()
    for number, encoding_pass, seen in passes:
        if pack.passes and pack.length_with(encoding_pass, seen) > most:
            yield pack
            pack = Pack()
        pack.add(number, encoding_pass, seen)
    if pack.passes:
        yield pack


def _part(encoding_pass: EncodingPass, start: int, end: int) -> EncodingPass:
    return EncodingPass(encoding_pass.ids[start:end], encoding_pass.positions[start:end])
