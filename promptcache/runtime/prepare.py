"""A prompt's states for callers who run transformers' `generate` themselves."""

from __future__ import annotations

from typing import Any

from promptcache.errors import RequestError
from promptcache.runtime.requests import Requests
from promptcache.runtime.settled import Planned


def prepare(requests: Requests, planned: Planned, copies: int) -> dict[str, Any]:
    """Keyword arguments for `model.generate`: ids, mask and positions of the whole prompt, and a cache that holds the
    states of all its tokens but the last, in position order, a private copy for each of `copies` rows.

    Raises RequestError for fewer than one copy, and for gaps where the model has windows: transformers' own counting
    goes by slots.
    """
    if copies < 1:
        raise RequestError(f"copies={copies} is out of range", hint="it is the number of beams or return sequences")
    places = planned.plan.position_ids
    if requests.adapter.has_windows and places and places[-1] - places[0] >= len(places):
        raise RequestError(
            "the prompt has gaps between positions, and the windows of this model's layers would count tokens instead",
            hint="use layout='compact', or the engine's own generate",
        )
    settled = requests.settle(planned)
    plan, state = settled.plan, requests.state(planned, settled)
    state.prefill()
    return requests.adapter.generate_arguments(
        plan.token_ids, plan.position_ids, [state.states_of(run) for run in plan.runs], copies
    )
