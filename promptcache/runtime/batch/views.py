"""Groups of stored states as the tokens of one pass see them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import torch

from promptcache.kv.batch import SharedView
from promptcache.kv.tails import Bucket
from promptcache.runtime.batch.pieces import Use
from promptcache.runtime.batch.shared import Group


def shared_views(groups: Iterable[Group], buckets: Sequence[Bucket], dtype: torch.dtype) -> Iterator[SharedView]:
    """A view for each group that some token of the pass sees."""
    places: dict[int, range] = {}
    for bucket in buckets:
        start = bucket.start
        for number, count in zip(bucket.rows, bucket.counts, strict=True):
            places[number] = range(start, start + count)
            start += count
    total = sum(len(tokens) for tokens in places.values())
    for group in groups:
        # From its first token that sees any of the group, a row sees more and more of it.
        seeing = {
            number: tokens[min(part.first_row for part in group.uses[number].parts) :]
            for number, tokens in places.items()
            if number in group.uses
        }
        tokens = [token for each in seeing.values() for token in each]
        if tokens:
            shifts = [group.uses[number].shift for number, each in seeing.items() for _ in each]
            yield SharedView(
                group.view.keys,
                group.view.values,
                None if len(tokens) == total else torch.tensor(tokens),
                shifts if any(shifts) else (),
                _mask(group, seeing, dtype),
            )


def _mask(group: Group, seeing: Mapping[int, range], dtype: torch.dtype) -> torch.Tensor | None:
    """Additive [tokens, seq_len]; None where all see all."""
    length = group.length
    if all(_sees_all(group.uses[number], length) for number, tokens in seeing.items() if tokens):
        return None
    rows = []
    for number, tokens in seeing.items():
        rows.append(torch.full((len(tokens), length), torch.finfo(dtype).min, dtype=dtype))
        parts = group.uses[number].parts
        first = min(part.first_row for part in parts)
        for part in parts:
            rows[-1][part.first_row - first :, part.start : part.end] = 0
    return torch.cat(rows)


def _sees_all(use: Use, length: int) -> bool:
    """Whether the row's tokens that see any of the group see all of it. Neighbouring parts have been joined."""
    (part, *more) = use.parts
    return not more and part.start == 0 and part.end == length
