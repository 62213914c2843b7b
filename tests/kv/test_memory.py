from __future__ import annotations

import gc
import threading

import pytest
import torch

from promptcache.kv import memory
from promptcache.kv.memory import empty

LARGE = 2 << 20
CPU = torch.device("cpu")

pytestmark = pytest.mark.skipif(not memory._HUGE_PAGES, reason="this system has no huge pages to ask for")


@pytest.fixture(autouse=True)
def nothing_kept():
    memory._free.clear()
    yield
    memory._free.clear()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("size", [0, 1, 1000, LARGE + 1])
def test_a_vector_of_that_size_that_can_be_written(dtype: torch.dtype, size: int):
    made = empty(size, dtype, CPU).fill_(3)
    assert made.shape == (size,) and made.dtype == dtype and bool((made == 3).all())


def test_memory_serves_again_only_when_its_last_view_is_gone():
    made = empty(LARGE, torch.float32, CPU).fill_(1)
    view, place = made[5:9].view(2, 2), made.data_ptr()
    del made
    gc.collect()
    other = empty(LARGE, torch.float32, CPU).fill_(2)
    assert other.data_ptr() != place and bool((view == 1).all())
    del view
    gc.collect()
    assert empty(LARGE // 2, torch.float32, CPU).data_ptr() == place


def test_little_is_kept():
    held = [empty(LARGE, torch.float32, CPU) for _ in range(5)]
    del held
    gc.collect()
    assert len(memory._free) == memory._KEPT


def test_a_region_that_is_too_small_is_passed_over():
    small = empty(LARGE, torch.float32, CPU)
    del small
    gc.collect()
    assert empty(2 * LARGE, torch.float32, CPU).fill_(1).sum() == 2 * LARGE
    assert len(memory._free) >= 1


def test_threads_never_share_a_region():
    faults: list[int] = []

    def work(number: int) -> None:
        for _ in range(20):
            mine = empty(LARGE, torch.float32, CPU).fill_(number)
            if not bool((mine == number).all()):
                faults.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
