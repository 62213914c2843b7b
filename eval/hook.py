"""What really goes through a model, so that no figure rests on what a side says about itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from promptcache.errors import PromptCacheError


class MeasurementError(PromptCacheError):
    """A side computed something else than it was measured for. The run ends: its figures would mean nothing."""


class TokenHook:
    """Counts the tokens of every forward pass while it is held with `with`.

    It sits on the input embedding, which every pass of every family runs through, stock `generate` included.
    """

    def __init__(self, model: Any) -> None:
        self._embedding = model.get_input_embeddings()
        self.passes: list[int] = []

    def __enter__(self) -> TokenHook:
        self._handle = self._embedding.register_forward_hook(self._count)
        return self

    def __exit__(self, *_: object) -> None:
        self._handle.remove()

    def _count(self, module: Any, inputs: tuple[Any, ...], output: Any) -> None:
        self.passes.append(inputs[0].numel())

    def expect(self, side: str, passes: Sequence[int]) -> None:
        """Raises MeasurementError unless exactly these passes were run since the last call, tokens of each."""
        found, self.passes = self.passes, []
        if found != list(passes):
            raise MeasurementError(
                f"{side}: passes of {_shown(passes)} tokens were expected, {_shown(found)} were run",
                hint="the baseline must compute every token and reuse only the fresh ones: something cached or computed"
                " more than it was asked to",
            )

    def expect_total(self, side: str, tokens: int) -> None:
        """As `expect`, for passes of which only the tokens together are known."""
        found, self.passes = self.passes, []
        if sum(found) != tokens:
            raise MeasurementError(
                f"{side}: {tokens} tokens were said to be computed, {sum(found)} were run",
                hint="a count of the engine is wrong, so nothing measured with it means anything",
            )


def _shown(passes: Sequence[int]) -> str:
    listed = ", ".join(str(tokens) for tokens in passes[:4])
    return f"[{listed}{', ...' if len(passes) > 4 else ''}] ({len(passes)}, together {sum(passes)})"
