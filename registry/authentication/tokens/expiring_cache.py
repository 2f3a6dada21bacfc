"""A small cache: a value for some seconds, the least recently used one dropped when it is full."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Cache(Generic[K, V]):
    def __init__(self, size: int) -> None:
        self._size = size
        self._found: OrderedDict[K, tuple[float, V]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._found)

    def get(self, key: K) -> V | None:
        found = self._found.get(key)
        if found is None or time.monotonic() >= found[0]:
            return None
        self._found.move_to_end(key)
        return found[1]

    def put(self, key: K, value: V, seconds: float) -> None:
        self._found[key] = (time.monotonic() + seconds, value)
        self._found.move_to_end(key)
        if len(self._found) > self._size:
            self._found.popitem(last=False)

    def pop(self, key: K) -> None:
        self._found.pop(key, None)

    def clear(self) -> None:
        self._found.clear()
