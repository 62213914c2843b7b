"""Names: which are legal, and which one a writer may have meant."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

ROLES = ("system", "user", "assistant")
RESERVED = frozenset({"schema", "prompt", "module", "union", "parameter", "param", "scaffold", *ROLES})
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")

# Comparing names is quadratic in their length, and a hostile text chooses the length.
_LONGEST_COMPARED = 100
_MOST_COMPARED = 500
_MOST_LISTED = 20


def name_fault(name: str, *, reserved: bool = True) -> tuple[str, str] | None:
    """Why `name` is no legal name, and a hint; None for a legal one."""
    if not NAME.fullmatch(name):
        return f'"{shorten(name)}" is not a name', "a name is a letter or _, then letters, digits, _ . or -"
    if reserved and name in RESERVED:
        return f'the name "{name}" is reserved', "choose a name that is no element of PML"
    return None


def shorten(text: str, limit: int = 60) -> str:
    """`text` fit to stand in a message: printable, on one line, cut to `limit` characters."""
    line = text if len(text) <= limit else text[: limit - 3] + "..."
    return "".join(c if c.isprintable() else "?" for c in line)


def suggest(name: str, allowed: Iterable[str], *, what: str = "allowed here") -> str:
    """A hint: the allowed name that is close to `name`, if one is, and the list of those allowed."""
    names = list(dict.fromkeys(allowed))
    if not names:
        return f"{what}: none"
    listed = ", ".join(names[:_MOST_LISTED])
    if len(names) > _MOST_LISTED:
        listed += f" and {len(names) - _MOST_LISTED} more"
    close = closest(name, names)
    return f'did you mean "{close}"? {what}: {listed}' if close else f"{what}: {listed}"


def closest(name: str, allowed: Iterable[str]) -> str | None:
    """The name in `allowed` that is close to `name`, letter case aside; None when none is."""
    if len(name) > _LONGEST_COMPARED:
        return None
    folded: dict[str, str] = {}
    for candidate in list(allowed)[:_MOST_COMPARED]:
        if len(candidate) <= _LONGEST_COMPARED:
            folded.setdefault(candidate.casefold(), candidate)
    name = name.casefold()
    # difflib finds little in common where letters changed places.
    swapped = (candidate for candidate in folded if sorted(candidate) == sorted(name))
    match = next(iter(get_close_matches(name, folded, n=1, cutoff=0.6)), None) or next(swapped, None)
    return folded[match] if match else None
