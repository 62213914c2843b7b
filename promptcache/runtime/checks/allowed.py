"""What a model may be used for: attention paths and layouts, as far as it has them and passes the check."""

from __future__ import annotations

import logging

from promptcache.errors import RequestError, UnsupportedModelError
from promptcache.layout.policies.policy import LayoutPolicy, policy
from promptcache.models.adapter import ModelAdapter
from promptcache.runtime.checks.self_check import fault_of

logger = logging.getLogger(__name__)


class Allowed:
    """The attention path of an engine, chosen at load, and the layouts on it.

    With `self_check` each layout is proved before it is first used. Raises RequestError for unknown names,
    UnsupportedModelError for what the model does not have or fails.
    """

    def __init__(self, adapter: ModelAdapter, attention: str | None, layout: str, *, self_check: bool) -> None:
        self._adapter, self._self_check = adapter, self_check
        self._family = type(adapter.model).__name__
        if not self_check and any(device.type == "mps" for device in adapter.devices):
            raise RequestError("on mps nothing is proved but by the self-check", hint="leave self_check=True")
        self._possible(layout)
        self.attention = self._choose(attention, layout)
        self.policy(layout)

    def policy(self, name: str) -> LayoutPolicy:
        """The layout policy of that name."""
        found = self._possible(name)
        if fault := self._fault(self.attention, name):
            other = "attention='assembled'" if self.attention == "segments" else "another layout"
            raise UnsupportedModelError(
                f"{self._family} fails the check of layout {name!r} on the {self.attention} path: {fault}",
                hint=f"try {other}; with self_check=False it is taken as it is, and its answers may be wrong",
            )
        return found

    def _choose(self, name: str | None, layout: str) -> str:
        if name not in (None, "segments", "assembled"):
            raise RequestError(f"unknown attention {name!r}", hint="known are: assembled, segments")
        if name == "segments" and not self._adapter.attends_segments:
            raise UnsupportedModelError(
                f"{self._family} cannot attend segments where they lie", hint="use attention='assembled'"
            )
        if name is not None or not self._adapter.attends_segments:
            return name or "assembled"
        if fault := self._fault("segments", layout):
            logger.warning(
                "%s fails the check of the segments path and takes the assembled one: %s", self._family, fault
            )
            return "assembled"
        return "segments"

    def _possible(self, name: str) -> LayoutPolicy:
        found = policy(name)
        if found.relocates:
            _ = self._adapter.rotations
        elif self._adapter.counts_slots:
            raise UnsupportedModelError(
                f"{self._family} takes a token's place in the cache for its position (ALiBi), so that positions cannot "
                "be reserved",
                hint="use layout='compact'",
            )
        return found

    def _fault(self, attention: str, layout: str) -> str | None:
        return fault_of(self._adapter, attention, layout) if self._self_check else None
