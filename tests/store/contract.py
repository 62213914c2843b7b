"""What every tier must do; a tier's tests subclass it."""

from __future__ import annotations

import threading
from hashlib import blake2b

import pytest
import torch

from promptcache.kv.arena import Arena, coalesce
from promptcache.kv.block import KVBlock
from promptcache.kv.codec import Codec, codec
from promptcache.layout.encodings.key import KeyContext, SegmentKey
from promptcache.store.base import Origin, Tier

ORIGIN = Origin("s", "tiny", "isolated", "reserved", KeyContext(model="m", tokenizer="t", dtype="torch.float32"))
BYTES_PER_TOKEN = 2 * 2 * 2 * 8 * 4  # keys and values, layers, heads, dim, float32


def key(name: object) -> SegmentKey:
    """A key that looks as keys do."""
    return SegmentKey(blake2b(str(name).encode(), digest_size=20).hexdigest())


def block(seed: int, tokens: int = 3, dtype: torch.dtype = torch.float32) -> KVBlock:
    """Two layers of random states that fill their numbers' range, the keys positive and the values negative."""
    random = torch.Generator().manual_seed(seed)
    keys = tuple(torch.rand((2, tokens, 8), generator=random).add(seed + 1).to(dtype) for _ in range(2))
    return KVBlock(keys, tuple(-states for states in keys))


def arena(*lengths: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> dict[SegmentKey, KVBlock]:
    """Blocks side by side."""
    made: dict[SegmentKey, KVBlock] = {}
    room = Arena.like(block(seed, dtype=dtype), sum(lengths))
    for number, length in enumerate(lengths):
        made[key((seed, number))] = room.put(block(seed + number, length, dtype), sum(lengths[:number]))
    return made


def near(found: KVBlock, stored: KVBlock, used: Codec) -> bool:
    """Whether all numbers are within the codec's declared error, and of the same dtype."""
    pairs = [
        ("keys", zip(found.keys, stored.keys, strict=True)),
        ("values", zip(found.values, stored.values, strict=True)),
    ]
    return all(
        left.dtype == right.dtype and bool(((left.float() - right.float()).abs() <= used.bound(kind, right)).all())
        for kind, layers in pairs
        for left, right in layers
    )


class TierContract:
    codec = codec("none")

    @pytest.fixture
    def tier(self) -> Tier:
        raise AssertionError("a subclass makes the tier")

    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
    @pytest.mark.parametrize("tokens", [1, 2, 63, 64, 65])
    def test_what_is_put_comes_back_within_the_declared_error(self, tier, tokens, dtype):
        stored = block(1, tokens, dtype)
        assert tier.get([key("a")]) == {}
        tier.put({key("a"): stored}, ORIGIN)
        found = tier.get([key("a"), key("b")])
        assert found.keys() == {key("a")}
        assert found[key("a")].seq_len == tokens
        assert near(found[key("a")], stored, self.codec)
        again = tier.get([key("a")])[key("a")]
        for left, right in zip(found[key("a")].keys, again.keys, strict=True):
            assert torch.equal(left, right)

    def test_keys_stay_keys_and_values_values(self, tier):
        blocks = arena(3, 1, 5)
        tier.put(blocks, ORIGIN)
        for found in tier.get(blocks).values():
            assert all(bool((states > 0).all()) for states in found.keys)
            assert all(bool((states < 0).all()) for states in found.values)

    def test_what_lies_side_by_side_is_got_side_by_side(self, tier):
        blocks = arena(3, 1, 5)
        tier.put(blocks, ORIGIN)
        found = list(tier.get(blocks).values())
        for _ in range(2):
            joined = coalesce(found[0], found[1])
            assert joined is not None and (joined := coalesce(joined, found[2])) is not None
            assert joined.seq_len == 9
            assert torch.equal(joined.keys[1][:, 4:], found[2].keys[1])

    def test_a_part_is_got_alone(self, tier):
        blocks = arena(3, 1, 5)
        tier.put(blocks, ORIGIN)
        last = list(blocks)[2]
        assert near(tier.get([last])[last], blocks[last], self.codec)

    def test_a_key_keeps_its_first_block(self, tier):
        tier.put({key("a"): block(1)}, ORIGIN)
        tier.put({key("a"): block(2), key("b"): block(3)}, ORIGIN)
        found = tier.get([key("a"), key("b")])
        assert near(found[key("a")], block(1), self.codec) and near(found[key("b")], block(3), self.codec)

    def test_contains(self, tier):
        blocks = arena(2, 2)
        assert tier.contains(blocks) == set()
        tier.put(blocks, ORIGIN)
        assert tier.contains([*blocks, key("no")]) == set(blocks)

    def test_discard(self, tier):
        blocks = arena(2, 2)
        first, second = blocks
        tier.put(blocks, ORIGIN)
        held = tier.get([first])[first]
        tier.discard([first])
        tier.discard([first, key("no")])
        assert tier.get(blocks).keys() == tier.contains(blocks) == {second}
        tier.discard([second])
        assert tier.stats().blocks == tier.stats().num_bytes == 0
        assert near(held, blocks[first], self.codec)
        tier.put(blocks, ORIGIN)
        assert tier.get(blocks).keys() == set(blocks)

    def test_nothing_is_nothing(self, tier):
        tier.put({}, ORIGIN)
        assert tier.get([]) == {} and tier.contains([]) == set() and tier.stats().num_bytes == 0

    def test_many_threads(self, tier):
        failures: list[object] = []

        def work(number: int) -> None:
            try:
                for i in range(30):
                    seed = (i + number) % 7
                    tier.put({key(seed): block(seed)}, ORIGIN)
                    found = tier.get([key(seed)])
                    if found and not near(found[key(seed)], block(seed), self.codec):
                        failures.append((number, i))
                    if i % 5 == 0:
                        tier.discard([key(seed)])
            except BaseException as fault:
                failures.append(fault)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
