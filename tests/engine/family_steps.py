"""A request and its decode steps beside the oracle."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from promptcache import PromptCache
from tests.families import Family
from tests.family_oracle import last_logits
from tests.oracle import Token


def beside_oracle(
    engine: PromptCache, family: Family, prompt: str, asked: list[Token], steps: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """(reuse, oracle): logits of the first new token, then behind each of so many steps along the oracle's greedy
    tokens, which are put behind `asked`. Float32 [vocab_size] each."""
    state = engine._requests.assemble(engine._planned(prompt, True), steps)
    found = state.prefill()[-1]
    for step in range(steps + 1):
        right = last_logits(engine.model, family, asked)
        yield found, right
        if step < steps:
            asked.append(Token(int(right.argmax()), asked[-1].position + 1))
            found = state.step(asked[-1].id)
