"""Bounded caches for reproducible values; the least recently used entries are evicted first."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from time import monotonic
from typing import Any, Final, Generic, TypeVar
from weakref import WeakSet

from prometheus_client import Gauge

HELD: Final = Gauge("registry_cache_bytes", "Bytes that the caches of the process hold together.")

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class CacheMemory:
    """What all caches with a capacity in bytes may hold together: less than the sum of their capacities, since hardly
    any process needs all of them.

    Beyond the limit, the eldest entries of the cache that is the fullest by its own capacity are evicted. The sum is
    formed each time that a 64th of the limit has been put into the caches, by so much of which it may be exceeded.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self._caches: WeakSet[LruCache[Any, Any]] = WeakSet()
        self._put_bytes = 0

    def add(self, cache: LruCache[Any, Any]) -> None:
        self._caches.add(cache)

    def note_put(self, count: int) -> None:
        """Evicts entries until the caches are within the limit, if enough has been put into them since."""
        self._put_bytes += count
        if self._put_bytes > self.limit_bytes >> 6:
            self._put_bytes = 0
            self._trim()

    def _trim(self) -> None:
        caches = list(self._caches)
        while (held := sum([cache.weight for cache in caches])) > self.limit_bytes:
            max(caches, key=lambda cache: cache.weight / cache.capacity).evict_eldest()
        HELD.set(held)


# The setting --cache-limit-megabytes changes the limit.
MEMORY: Final = CacheMemory(256 << 20)


class LruCache(Generic[K, V]):
    """A cache of `capacity` entries, or of that many bytes if `weigh` is given, and within `memory`. Thread-safe.

    A value that weighs more than the whole capacity is not kept. `evicted` is called with entries evicted for others.
    """

    __slots__ = ("__weakref__", "_entries", "_evicted", "_lock", "_memory", "_weigh", "capacity", "weight")

    def __init__(
        self,
        capacity: int,
        weigh: Callable[[V], int] | None = None,
        evicted: Callable[[K, V], object] | None = None,
        memory: CacheMemory = MEMORY,
    ) -> None:
        self.capacity = capacity
        self.weight = 0
        self._weigh = weigh
        self._evicted = evicted
        self._entries: OrderedDict[K, V] = OrderedDict()
        self._lock = threading.Lock()
        self._memory = memory
        if weigh is not None:
            memory.add(self)

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
                evicted.append(self._pop_eldest())
        if self._evicted is not None:
            for key, dropped in evicted:
                self._evicted(key, dropped)
        if self._weigh is not None:
            self._memory.note_put(weight)
        return value

    def evict_eldest(self) -> None:
        """Evicts the least recently used entry, if there is one."""
        with self._lock:
            if not self._entries:
                return
            key, dropped = self._pop_eldest()
        if self._evicted is not None:
            self._evicted(key, dropped)

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

    def _pop_eldest(self) -> tuple[K, V]:
        # At once: an iterator would fail if another thread marks an entry as used meanwhile.
        key, dropped = self._entries.popitem(last=False)
        self._subtract(dropped)
        return key, dropped

    def _remove(self, key: K) -> V | None:
        value = self._entries.pop(key, None)
        if value is not None:
            self._subtract(value)
        return value

    def _subtract(self, value: V) -> None:
        # Values may have become lighter since: an empty cache weighs nothing all the same.
        self.weight = self.weight - self._weight_of(value) if self._entries else 0

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
        return entry[1] if entry is not None and monotonic() < entry[0] else None

    def put(self, key: K, value: V, seconds: float) -> V:
        self._entries.put(key, (monotonic() + seconds, value))
        return value

    def pop(self, key: K) -> None:
        self._entries.pop(key)

    def clear(self) -> None:
        self._entries.clear()
