"""Where things are kept on this machine."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs


def cache_home() -> Path:
    """The folder for what can be made again: `PROMPTCACHE_HOME`, else the platform's cache folder for this user.

    Nothing is created here.
    """
    named = os.environ.get("PROMPTCACHE_HOME", "").strip()
    return Path(named).expanduser().absolute() if named else platformdirs.user_cache_path("promptcache")
