"""Which stored tokens a request computes again: the contract of a repair policy, and the policies by name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from math import inf
from typing import Protocol

from promptcache.errors import RequestError
from promptcache.layout.encodings.encoding import EncodingPass
from promptcache.layout.plan import RequestPlan


class Probe(Protocol):
    """Asks the model about a request before it is answered. Its passes are counted as computed tokens."""

    def attention(self, plan: RequestPlan) -> Mapping[int, float]:
        """One pass over the plan's computed tokens: the share of the attention of its fresh tokens (all computed ones
        where none is fresh) that falls on each reused token, by position, over all layers and heads."""


class RepairPolicy(Protocol):
    """Chooses reused tokens that are computed again, in one pass with the fresh ones. Their new states see all that
    stands before them and live with the request; what is stored does not change.

    Values: two of one name are equal.
    """

    @property
    def name(self) -> str:
        """What a call or a prompt asks for it with."""

    def choose(self, plan: RequestPlan, passes: Sequence[EncodingPass], probe: Probe | None) -> Collection[int]:
        """Positions of reused tokens; `passes` are those that encoded them. Equal input gives an equal choice.

        With no probe, as when a request is only planned, what takes a pass of the model to know is left out.
        """


def repair_policy(name: str) -> RepairPolicy:
    """The policy that a name like `link:8+query:0.1` means: several take turns, each with what those before it left.

    Raises RequestError for one that there is not.
    """
    from promptcache.runtime.repair.combined import Combined

    policies = tuple(_one(name, part) for part in name.split("+"))
    return policies[0] if len(policies) == 1 else Combined(policies)


def _one(whole: str, part: str) -> RepairPolicy:
    from promptcache.runtime.repair.auto import Auto
    from promptcache.runtime.repair.full import Full
    from promptcache.runtime.repair.link import Link
    from promptcache.runtime.repair.none import NoRepair
    from promptcache.runtime.repair.query import Query
    from promptcache.runtime.repair.within import Within

    def link(value: str) -> RepairPolicy:
        tokens, limited, times = value.partition(":")
        return Link(_tokens(tokens), _times(times) if limited else None)

    known: dict[str, tuple[str, Callable[[str], RepairPolicy]]] = {
        "none": ("none", lambda value: NoRepair()),
        "full": ("full", lambda value: Full()),
        "link": ("link:8 or link:8:3 (a number of tokens, within so many times what is computed anyway)", link),
        "query": ("query:0.1 (a share of the stored tokens)", lambda value: Query(_share(value))),
        "within": ("within:1.5 (times what is computed anyway)", lambda value: Within(_times(value))),
        "auto": ("auto:0.3 (a share of a full prefill's time)", lambda value: Auto(_share(value))),
    }
    kind, colon, value = part.strip().partition(":")
    hint = f"known are: {', '.join(example for example, _ in known.values())}; several are joined by +"
    if kind not in known or bool(colon) != (":" in known[kind][0]):
        raise RequestError(f"unknown repair {whole!r}", hint=hint)
    try:
        return known[kind][1](value)
    except ValueError:
        raise RequestError(f"repair {whole!r}: {part.strip()!r} is out of range", hint=hint) from None


def _tokens(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ValueError
    return int(text)


def _times(text: str) -> float:
    times = float(text)
    if not 1 < times < inf:
        raise ValueError
    return times


def _share(text: str) -> float:
    share = float(text)
    if not 0 < share <= 1:
        raise ValueError
    return share
