"""Layers come ahead of those that compute, are waited for alone, and are right."""

from __future__ import annotations

import pytest
import torch

from promptcache.kv.arena import Arena, PinnedArena
from promptcache.kv.block import KVBlock
from promptcache.kv.devices import Devices
from promptcache.kv.prefetch import Prefetch, fetched
from promptcache.kv.segment_view import SegmentView
from promptcache.kv.transfers import transfers
from tests.kv.fake_transfers import GPU, fake_transfers

LAYERS = 5


def block(tokens: int, seed: int = 0) -> KVBlock:
    torch.manual_seed(seed)
    keys, values = (tuple(torch.randn(2, tokens, 8) for _ in range(LAYERS)) for _ in range(2))
    return KVBlock(keys, values)


@pytest.mark.parametrize("kind", [Arena, PinnedArena])
def test_every_layer_of_every_view_is_that_of_its_block(kind):
    blocks = [block(3), block(4, 1)]
    with fake_transfers():
        arena = kind.like(blocks[0], 9)
        lying = [arena.put(blocks[0], 1), arena.put(blocks[1], 5)]
        views = fetched(tuple(SegmentView.of(each, 2, 7) for each in lying), Devices([GPU] * LAYERS))
        for layer in range(LAYERS):
            for view, right in zip(views, blocks, strict=True):
                assert (view.first_row, view.shift) == (2, 7)
                assert torch.equal(view.keys[layer], right.keys[layer][None])
                assert torch.equal(view.values[layer], right.values[layer][None])
        # Decoding reads them again, from any layer on, without another copy.
        assert torch.equal(views[1].keys[0], blocks[1].keys[0][None])


def test_the_order_of_copies_and_waits():
    view = SegmentView.of(block(3), 0)
    with fake_transfers() as carrier:
        prefetch = Prefetch([view], [GPU] * LAYERS)
        assert carrier.log == [("room",)] * LAYERS + [("fetch", n) for n in (1, 2, 3, 4)]
        for layer in range(LAYERS):
            del carrier.log[:]
            prefetch.layer(layer)
            asked = [("fetch", n) for n in (2 * layer + 5, 2 * layer + 6)] if layer + 2 < LAYERS else []
            # Two layers are on their way beyond the one in turn, which waits for its own two copies alone.
            assert carrier.log == [*asked, ("hold", 2 * layer + 2)]
        del carrier.log[:]
        for layer in range(LAYERS):
            prefetch.layer(layer)
        assert carrier.log == []


def test_what_nobody_waited_for_is_not_there():
    view = SegmentView.of(block(3), 0)
    with fake_transfers() as carrier:
        Prefetch([view], [GPU] * LAYERS)
        assert all(room.isnan().all() for room in carrier.rooms)


def test_a_layer_in_main_memory_stays_where_it_is():
    lying = block(3)
    devices = Devices([torch.device("cpu"), GPU, torch.device("cpu"), GPU, GPU])
    with fake_transfers() as carrier:
        (view,) = fetched((SegmentView.of(lying, 0),), devices)
        for layer, device in enumerate(devices):
            assert torch.equal(view.keys[layer], lying.keys[layer][None])
            is_there = view.keys[layer].data_ptr() == lying.keys[layer].data_ptr()
            assert is_there == (device.type == "cpu")
        assert len(carrier.rooms) == 3


def test_a_model_on_the_cpu_pays_nothing(monkeypatch):
    views = (SegmentView.of(block(3), 0),)
    monkeypatch.setattr("promptcache.kv.prefetch.Prefetch", None)
    assert fetched(views, Devices([torch.device("cpu")] * LAYERS)) is views
    assert fetched((), Devices([GPU] * LAYERS)) == ()


def test_no_request_waits_for_another_ones_copies():
    with fake_transfers():
        first, second = (Prefetch([SegmentView.of(block(3, n), 0)], [GPU] * LAYERS) for n in range(2))
        for layer in range(LAYERS):
            for number, prefetch in ((1, second), (0, first)):
                assert torch.equal(prefetch.layer(layer)[0][0], block(3, number).keys[layer][None])


def test_a_block_near_the_model():
    far = block(3)
    with fake_transfers():
        near = Devices([GPU] * LAYERS).near(far)
        assert torch.equal(near.keys[4], far.keys[4]) and near.keys[4] is not far.keys[4]
        assert Devices([torch.device("cpu")] * LAYERS).near(far) is far


@pytest.mark.gpu
def test_a_real_gpu():
    torch.manual_seed(0)
    source = KVBlock(*(tuple(torch.randn(8, 4096, 64) for _ in range(LAYERS)) for _ in range(2)))
    arena = PinnedArena.like(source, 4096)
    assert arena.keys[0].is_pinned()
    devices = Devices([torch.device("cuda", 0)] * LAYERS)
    busy = torch.randn(4096, 4096, device=devices[0])
    for _ in range(20):
        for _ in range(20):
            busy = (busy @ busy).tanh()
        on_device = KVBlock(*(tuple(layer.to(devices[0]) for layer in each) for each in (source.keys, source.values)))
        lying = arena.put(on_device, 0)
        assert all(torch.equal(a, b) for a, b in zip(lying.keys, source.keys, strict=True))
        (view,) = fetched((SegmentView.of(lying, 0),), devices)
        for layer in range(LAYERS):
            assert torch.equal(view.values[layer][0].cpu(), source.values[layer])
    transfers(devices[0]).sent().wait()
