"""Byte sizes as people write them."""

from __future__ import annotations

import re

from promptcache.errors import RequestError

_UNITS = {"": 1, "b": 1}
for _power, _letter in enumerate("kmgt", start=1):
    _UNITS |= {f"{_letter}b": 1000**_power, f"{_letter}ib": 1024**_power, _letter: 1024**_power}


def parse_size(value: int | str, what: str) -> int:
    """Bytes from a number or a text such as "4GiB", "500 MB" or "0". Raises RequestError that names `what`."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", value) if isinstance(value, str) else None
    if found is None or found[2].lower() not in _UNITS:
        raise RequestError(f"{what}={value!r} is no size", hint='give bytes, or a text such as "4GiB" or "500MB"')
    return int(float(found[1]) * _UNITS[found[2].lower()])


def format_size(num_bytes: int) -> str:
    """A short text for people, in powers of 1024: "0 B", "1.5 MiB"."""
    size = float(num_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
