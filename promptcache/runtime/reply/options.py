"""How a reply is sampled and where it ends."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, TypedDict

from promptcache.errors import RequestError
from promptcache.models.sampling import Sampler


class SamplingOptions(TypedDict, total=False):
    """Keyword arguments of every call that generates; `Sampling` says what they mean and their defaults."""

    max_new_tokens: int
    temperature: float
    top_p: float
    top_k: int
    repetition_penalty: float
    seed: int | None
    stop: str | Iterable[str]


@dataclass(frozen=True)
class Sampling:
    """`temperature` 0 is greedy. `top_k` 0 and `top_p` 1 are off; `repetition_penalty` counts the whole prompt. A
    reply ends before the first of the `stop` strings. With a `seed` the same request draws the same tokens."""

    max_new_tokens: int = 64
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    repetition_penalty: float = 1.0
    seed: int | None = None
    stop: tuple[str, ...] = ()

    @classmethod
    def of(cls, options: SamplingOptions) -> Sampling:
        """Checked options. Raises RequestError for values out of range, TypeError for unknown names."""
        given: dict[str, Any] = dict(options)
        unknown = given.keys() - {field.name for field in fields(cls)}
        if unknown:
            raise TypeError(f"unknown keyword argument {min(unknown)!r}")
        limit = given.get("max_new_tokens", 1)
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise RequestError(f"max_new_tokens={limit!r} is out of range", hint="it must be 1 or more")
        stop = given.get("stop", ())
        given["stop"] = (stop,) if isinstance(stop, str) else tuple(stop)
        if not all(isinstance(text, str) and text for text in given["stop"]):
            raise RequestError("a stop string is empty or no string", hint="give non-empty strings")
        made = cls(**given)
        made.sampler()  # checks the ranges
        return made

    def sampler(self) -> Sampler:
        """A sampler for one request."""
        return Sampler(
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=self.top_k,
            repetition_penalty=self.repetition_penalty,
            seed=self.seed,
        )
