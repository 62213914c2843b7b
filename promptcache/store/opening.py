"""A store from its configuration."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from promptcache.config import StoreConfig, store_home
from promptcache.errors import RequestError
from promptcache.kv.codec import codec
from promptcache.store.disk import DiskTier
from promptcache.store.memory import MemoryTier
from promptcache.store.sizes import parse_size
from promptcache.store.tiered import TieredStore


def as_config(store: StoreConfig | str | Path | None) -> StoreConfig:
    """A configuration from what an engine takes: a folder is short for one with that path. None is the default."""
    if isinstance(store, StoreConfig):
        return store
    return StoreConfig(path=store)


def folder_of(config: StoreConfig) -> Path | None:
    """Where the files lie, None where nothing is kept on disk. Raises RequestError."""
    if parse_size(config.disk_bytes, "disk_bytes") == 0:
        return None
    if config.path == "":
        raise RequestError("the store's path is empty", hint="name a folder, or leave it out")
    return store_home(config.path)


def open_store(config: StoreConfig, devices: Sequence[torch.device]) -> TieredStore:
    """The tiers that a model needs whose layers are on those devices. Nothing is created before something is stored.

    Raises RequestError for values out of range, StoreError for a path that is no folder.
    """
    if config.ttl is not None and not config.ttl > 0:
        raise RequestError(f"ttl={config.ttl!r} is out of range", hint="give seconds, or None to keep states")
    used = codec(config.codec)
    host_bytes, device_bytes, disk_bytes = (
        parse_size(getattr(config, name), name) for name in ("host_bytes", "device_bytes", "disk_bytes")
    )
    locked = any(device.type == "cuda" for device in devices)
    memory = [MemoryTier("host", host_bytes, devices=(torch.device("cpu"),), locked=locked, ttl=config.ttl)]
    if device_bytes and any(device.type != "cpu" for device in devices):
        memory.insert(0, MemoryTier("device", device_bytes, devices=devices, ttl=config.ttl))
    folder = folder_of(config)
    disk = DiskTier(folder, disk_bytes, used, ttl=config.ttl) if folder is not None else None
    return TieredStore(memory, disk, used)
