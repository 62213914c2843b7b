"""What a run stood on: machine, versions, commit. Figures without these cannot be compared."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

_PACKAGES = ("promptcache", "torch", "transformers", "numpy", "rouge", "rapidfuzz")


def machine_facts() -> dict[str, Any]:
    """Machine, threads, versions and commit, as JSON values; what cannot be told is None."""
    import torch

    cuda = torch.cuda.is_available()
    return {
        "system": platform.platform(),
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "memory_gib": _memory_gib(),
        "gpus": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())] if cuda else [],
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in _PACKAGES},
        "commit": _git("rev-parse", "HEAD"),
        "changed_files": _changed_files(),
    }


def _cpu_name() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or None
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), None)


def _memory_gib() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, ValueError, OSError):  # not on Windows
        return None


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _changed_files() -> int | None:
    status = _git("status", "--porcelain", "--untracked-files=no")
    return None if status is None else len(status.splitlines())


def _git(*arguments: str) -> str | None:
    """What git says about the folder that this file is in; None where there is no git or no repository."""
    try:
        done = subprocess.run(
            ("git", *arguments), cwd=Path(__file__).parent, capture_output=True, text=True, check=True, timeout=30
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
