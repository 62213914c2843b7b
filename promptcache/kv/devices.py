"""Where a model's layers are."""

from __future__ import annotations

import torch

from promptcache.kv.block import KVBlock
from promptcache.kv.transfers import transfers


class Devices(tuple[torch.device, ...]):
    """One device a layer. On the CPU alone nothing here does anything."""

    @property
    def are_cpu(self) -> bool:
        """Whether all layers compute in main memory."""
        return all(device.type == "cpu" for device in set(self))

    def near(self, block: KVBlock) -> KVBlock:
        """The block with each layer on its device: itself where it is there, else a copy in the same order of memory.
        What this thread computes from now on finds it there; the thread does not wait."""
        if self.are_cpu or all(
            key.device == value.device == device
            for key, value, device in zip(block.keys, block.values, self, strict=True)
        ):
            return block
        keys, values = (
            tuple(transfers(device).brought(states) for states, device in zip(layers, self, strict=True))
            for layers in (block.keys, block.values)
        )
        return KVBlock(keys, values)

    def wait(self) -> None:
        """Returns when the devices have computed all that this thread asked them for."""
        for device in () if self.are_cpu else set(self):
            transfers(device).sent().wait()
