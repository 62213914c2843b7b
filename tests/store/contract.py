"""What every store must do; a store's tests subclass it."""

from __future__ import annotations

import threading

import torch

from promptcache.kv.block import KVBlock
from promptcache.layout.key import SegmentKey
from promptcache.store.base import Store


def block(value: float, tokens: int = 3) -> KVBlock:
    """Two layers, keys and values told apart by sign."""
    keys = tuple(torch.full((2, tokens, 4), float(value + layer)) for layer in range(2))
    return KVBlock(keys, tuple(-key for key in keys))


class StoreContract:
    def make(self) -> Store:
        raise AssertionError("a subclass makes the store")

    def test_what_is_put_comes_back_to_the_bit(self):
        store, stored = self.make(), block(1.5)
        assert store.get(SegmentKey("a")) is None
        store.put(SegmentKey("a"), stored)
        found = store.get(SegmentKey("a"))
        assert found is not None and found.seq_len == 3
        for left, right in zip((*found.keys, *found.values), (*stored.keys, *stored.values), strict=True):
            assert torch.equal(left, right) and left.dtype == right.dtype

    def test_a_key_keeps_its_first_block(self):
        store = self.make()
        store.put(SegmentKey("a"), block(1))
        store.put(SegmentKey("a"), block(2))
        found = store.get(SegmentKey("a"))
        assert found is not None and found.keys[0][0, 0, 0] == 1

    def test_discard(self):
        store = self.make()
        store.put(SegmentKey("a"), block(1))
        held = store.get(SegmentKey("a"))
        store.discard(SegmentKey("a"))
        store.discard(SegmentKey("a"))
        assert store.get(SegmentKey("a")) is None and store.num_bytes == 0
        assert held is not None and held.keys[0][0, 0, 0] == 1

    def test_bytes_are_those_of_the_tensors(self):
        store = self.make()
        store.put(SegmentKey("a"), block(1, tokens=3))
        store.put(SegmentKey("b"), block(1, tokens=5))
        assert store.num_bytes == (3 + 5) * 2 * 2 * 2 * 4 * 4

    def test_many_threads(self):
        store, failures = self.make(), []

        def work(number: int) -> None:
            for i in range(50):
                key = SegmentKey(str(i % 7))
                store.put(key, block(i % 7))
                found = store.get(key)
                if found is not None and found.keys[0][0, 0, 0] != i % 7:
                    failures.append((number, i))
                if i % 5 == 0:
                    store.discard(key)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
