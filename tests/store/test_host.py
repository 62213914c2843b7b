from __future__ import annotations

from promptcache.store.base import Store
from promptcache.store.host import HostStore
from tests.store.contract import StoreContract


class TestHostStore(StoreContract):
    def make(self) -> Store:
        return HostStore()
