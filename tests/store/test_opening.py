"""A store from its configuration: sizes, folders, and values that are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from promptcache import StoreConfig
from promptcache.config import store_home
from promptcache.errors import RequestError, StoreError
from promptcache.store.opening import as_config, folder_of, open_store
from promptcache.store.sizes import format_size, parse_size

CPU = (torch.device("cpu"),)


@pytest.mark.parametrize(
    ("text", "size"),
    [(7, 7), ("0", 0), ("12", 12), ("4GiB", 4 << 30), ("1.5 kb", 1500), (" 2 MiB ", 2 << 20), ("1T", 1 << 40)],
)
def test_sizes(text, size):
    assert parse_size(text, "x") == size


@pytest.mark.parametrize("text", ["", "much", "-1", -1, "4GiBs", 1.5, True, None, "1e3"])
def test_what_is_no_size(text):
    with pytest.raises(RequestError, match="host_bytes"):
        open_store(StoreConfig(host_bytes=text), CPU)


def test_sizes_for_people():
    assert [format_size(size) for size in (0, 1023, 1536, 3 << 20, 5 << 40)] == [
        "0 B",
        "1023 B",
        "1.5 KiB",
        "3.0 MiB",
        "5.0 TiB",
    ]


def test_where_files_lie(monkeypatch):
    assert as_config("here").path == "here" and as_config(None) == StoreConfig()
    assert folder_of(as_config("~/here")) == Path("~/here").expanduser()
    assert folder_of(StoreConfig(path="here", disk_bytes=0)) is None
    assert store_home() is None and folder_of(StoreConfig()) is None
    monkeypatch.setenv("PROMPTCACHE_STORE", "named")
    assert folder_of(StoreConfig()) == Path("named").absolute()
    monkeypatch.delenv("PROMPTCACHE_STORE")
    monkeypatch.setenv("PROMPTCACHE_HOME", "/home/cache")
    assert folder_of(StoreConfig()) == Path("/home/cache/store")


@pytest.mark.parametrize(
    "config",
    [
        StoreConfig(ttl=0),
        StoreConfig(ttl=-1.0),
        StoreConfig(codec="zip"),
        StoreConfig(disk_bytes="x"),
        StoreConfig(path=""),
    ],
)
def test_values_out_of_range(config):
    with pytest.raises(RequestError):
        open_store(config, CPU)


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="no folder"):
        open_store(StoreConfig(path=tmp_path / "file"), CPU)


def test_the_tiers_that_a_model_needs(tmp_path):
    elsewhere = open_store(StoreConfig(path=tmp_path), (torch.device("meta"), torch.device("cpu")))
    assert list(elsewhere.stats().tiers) == ["device", "host", "disk"]
    assert list(open_store(StoreConfig(), CPU).stats().tiers) == ["host"]
    host = open_store(StoreConfig(device_bytes="0"), (torch.device("meta"),))
    assert list(host.stats().tiers) == ["host"]


def test_main_memory_is_locked_for_a_gpu_alone():
    def is_locked(*devices: str) -> bool:
        (tier,) = open_store(StoreConfig(device_bytes=0), [torch.device(name) for name in devices])._memory
        return tier._locked

    assert is_locked("cuda") and is_locked("cpu", "cuda:1") and not is_locked("cpu") and not is_locked("meta")
