"""Where things are kept on this machine, how much of them, and what an engine does unless told otherwise."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import platformdirs

DEFAULT_ENCODING = "anchored"
DEFAULT_REPAIR = "link:8:3"
"""What a module sees while it is encoded, and what a request computes again: the closest to a full prefill that
`python -m eval tradeoff` found within 1.5 times the time to first token of no repair (a median; 3 times is where each
request ends). The paper's way is `isolated` and `none`."""


def cache_home() -> Path:
    """The folder for what can be made again: `PROMPTCACHE_HOME`, else the platform's cache folder for this user.

    Nothing is created here.
    """
    named = os.environ.get("PROMPTCACHE_HOME", "").strip()
    return Path(named).expanduser().absolute() if named else platformdirs.user_cache_path("promptcache")


def store_home(path: str | Path | None = None) -> Path | None:
    """The folder of stored states: `path`, else `PROMPTCACHE_STORE`, else `store` in `cache_home()`. None where that is
    `off`: nothing is kept on disk."""
    named = str(path) if path else os.environ.get("PROMPTCACHE_STORE", "").strip()
    if named.lower() == "off":
        return None
    return Path(named).expanduser().absolute() if named else cache_home() / "store"


@dataclass(frozen=True)
class StoreConfig:
    """Where stored states rest, and how many of them.

    Sizes are bytes, or texts such as "4GiB" and "500MB". `host_bytes` bounds what is held in main memory,
    `device_bytes` what is held beside a model that is not on the CPU, `disk_bytes` the files in the folder `path` (see
    `store_home`). `device_bytes=0` leaves states in main memory, which is page-locked where the model is on
    CUDA: each request then copies its own to the device, layer by layer ahead of computing. `disk_bytes=0` keeps
    nothing on disk. States that nobody used for `ttl` seconds are forgotten; None keeps them until room is needed.
    `codec` is the form on disk: none, bf16 or int8.
    """

    host_bytes: int | str = "4GiB"
    device_bytes: int | str = "2GiB"
    path: str | Path | None = None
    disk_bytes: int | str = "50GiB"
    ttl: float | None = None
    codec: str = "none"
