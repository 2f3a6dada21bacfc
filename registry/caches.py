"""Bounded caches for reproducible values; the least recently used entries are evicted first."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LruCache(Generic[K, V]):
    """A cache of `capacity` entries, or of that total weight if `weigh` is given. Thread-safe.

    A value that weighs more than the whole capacity is not kept. `evicted` is called with entries evicted for others.
    """

    __slots__ = ("_entries", "_evicted", "_lock", "_weigh", "capacity", "weight")

    def __init__(
        self, capacity: int, weigh: Callable[[V], int] | None = None, evicted: Callable[[K, V], object] | None = None
    ) -> None:
        self.capacity = capacity
        self.weight = 0
        self._weigh = weigh
        self._evicted = evicted
        self._entries: OrderedDict[K, V] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: object) -> bool:
        """Checks for a key without marking the entry as used."""
        return key in self._entries

    def get(self, key: K) -> V | None:
        """Returns the value, and marks it as used."""
        value = self._entries.get(key)
        if value is not None:
            try:
                self._entries.move_to_end(key)
            except KeyError:  # evicted by another thread since
                pass
        return value

    def peek(self, key: K) -> V | None:
        """Returns the value without marking it as used."""
        return self._entries.get(key)

    def put(self, key: K, value: V) -> V:
        """Stores the value as the most recently used, and returns it."""
        weight = self._weight_of(value)
        evicted: list[tuple[K, V]] = []
        with self._lock:
            self._remove(key)
            if weight > self.capacity:
                return value
            self._entries[key] = value
            self.weight += weight
            while self.weight > self.capacity:
                # At once: an iterator would fail if another thread marks an entry as used meanwhile.
                eldest, dropped = self._entries.popitem(last=False)
                self.weight -= self._weight_of(dropped)
                evicted.append((eldest, dropped))
        if self._evicted is not None:
            for key, dropped in evicted:
                self._evicted(key, dropped)
        return value

    def pop(self, key: K) -> V | None:
        with self._lock:
            return self._remove(key)

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()
            self.weight = 0

    def keys(self) -> list[K]:
        return list(self._entries)

    def values(self) -> list[V]:
        """Returns all values, the least recently used first."""
        return list(self._entries.values())

    def _remove(self, key: K) -> V | None:
        value = self._entries.pop(key, None)
        if value is not None:
            self.weight -= self._weight_of(value)
        return value

    def _weight_of(self, value: V) -> int:
        return 1 if self._weigh is None else self._weigh(value)


class ExpiringCache(Generic[K, V]):
    """At most `capacity` entries, each until it expires."""

    __slots__ = ("_entries",)

    def __init__(self, capacity: int) -> None:
        self._entries: LruCache[K, tuple[float, V]] = LruCache(capacity)

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> V | None:
        entry = self._entries.get(key)
        return entry[1] if entry is not None and time.monotonic() < entry[0] else None

    def put(self, key: K, value: V, seconds: float) -> V:
        self._entries.put(key, (time.monotonic() + seconds, value))
        return value

    def pop(self, key: K) -> None:
        self._entries.pop(key)

    def clear(self) -> None:
        self._entries.clear()
