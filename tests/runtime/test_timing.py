"""Laps have the time of what was asked of the device in them."""

from __future__ import annotations

import time

import pytest
import torch

from promptcache.kv.devices import Devices
from promptcache.runtime.timing import Stopwatch


def test_a_lap_has_the_time_of_what_it_asked_for():
    working_until = time.perf_counter() + 0.2
    watch = Stopwatch(lambda: time.sleep(max(0.0, working_until - time.perf_counter())))
    assert watch.lap() == pytest.approx(200, abs=30)
    assert watch.lap() < 30 and watch.total() >= 200


def test_on_the_cpu_nothing_of_a_gpu_is_touched(monkeypatch):
    for name in ("current_stream", "synchronize", "_lazy_init", "Event", "Stream"):
        monkeypatch.setattr(torch.cuda, name, None)
    watch = Stopwatch(Devices([torch.device("cpu")] * 3).wait)
    assert watch.lap() < 100


@pytest.mark.gpu
def test_a_device_that_sleeps():
    device = torch.device("cuda", torch.cuda.current_device())
    devices = Devices([device])
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(1000)
    devices.wait()
    watch = Stopwatch(devices.wait)
    start.record()
    torch.cuda._sleep(400_000_000)
    end.record()
    assert watch.lap() == pytest.approx(start.elapsed_time(end), abs=10) and start.elapsed_time(end) > 50
