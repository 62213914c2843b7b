"""What a pass costs, for policies that may spend so much."""

from __future__ import annotations

from promptcache.layout.plan import RequestPlan

PASS_TOKENS = 27
"""A pass takes as long as its tokens and so many more, since every pass reads all weights: the default model on two
cores takes 98 ms for one token behind 2,048 stored ones and 3.5 ms for each one more. A GPU reads weights for more
tokens in the time that it computes one, so there a budget in tokens leaves time over."""


def pass_cost(tokens: int) -> int:
    """A pass over so many tokens, in tokens."""
    return tokens + PASS_TOKENS


def spare(plan: RequestPlan, times: float) -> int:
    """Tokens that can be computed again within `times` what the plan costs as it is."""
    return int((times - 1) * pass_cost(plan.num_computed))
