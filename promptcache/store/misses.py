"""Why stored blocks of a schema do not serve."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import fields

from promptcache.store.base import Origin
from promptcache.store.header import Header

logger = logging.getLogger(__name__)


def explain(origin: Origin, headers: Iterable[Header]) -> None:
    """A line at debug level for each way in which what is stored under that schema's name differs."""
    reasons = dict.fromkeys(_difference(origin, header.origin) for header in headers)
    found = [reason for reason in reasons if reason is not None]
    for reason in found:
        logger.debug("schema %s is stored %s: a miss", origin.schema, reason)
    if not found:
        logger.debug("nothing is stored of a schema %s: a miss", origin.schema)


def _difference(wanted: Origin, stored: Origin) -> str | None:
    if stored.schema != wanted.schema:
        return None
    different = [
        f"{name} {getattr(stored, name)!r}"
        for name in ("encoding", "layout")
        if getattr(stored, name) != getattr(wanted, name)
    ]
    for field in fields(wanted.context):
        if getattr(stored.context, field.name) != getattr(wanted.context, field.name):
            different.append(f"{field.name} {getattr(stored.context, field.name)!r}")
    return "for another " + ", ".join(different) if different else "with other tokens or positions"
