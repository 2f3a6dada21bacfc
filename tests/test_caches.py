"""The caches are bounded, whatever they are given, and keep what is used."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from registry.caches import CacheMemory, ExpiringCache, LruCache


def test_the_least_recently_used_goes_first() -> None:
    gone: list[tuple[str, int]] = []
    cache: LruCache[str, int] = LruCache(2, evicted=lambda key, value: gone.append((key, value)))
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.get("a") == 1
    cache.put("c", 3)
    assert gone == [("b", 2)]
    assert cache.peek("a") == 1, "which does not count as a use"
    cache.put("d", 4)
    assert (cache.keys(), len(cache), "a" in cache) == (["c", "d"], 2, False)


def test_a_capacity_in_bytes_counts_each_value_once() -> None:
    cache: LruCache[str, bytes] = LruCache(10, len)
    cache.put("a", b"1234")
    cache.put("a", b"12345678")
    assert cache.weight == 8
    cache.put("b", b"123")
    assert (cache.keys(), cache.weight) == (["b"], 3)
    assert cache.put("c", b"x" * 11) == b"x" * 11
    assert (cache.keys(), cache.weight) == (["b"], 3), "what is larger than the cache drives nothing out"
    cache.put("b", b"x" * 11)
    assert "b" not in cache, "nor does it leave an older value behind"
    cache.clear()
    assert (len(cache), cache.weight) == (0, 0)


def test_the_size_is_exact_under_concurrent_threads() -> None:
    cache: LruCache[int, bytes] = LruCache(50, len)

    def work(start: int) -> None:
        for number in range(start, start + 5_000):
            cache.get(number % 40)
            cache.put(number % 40, b"x" * (number % 5 + 1))
            cache.pop((number + 7) % 40)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(work, range(4)))  # raises what one of them has raised
    finally:
        sys.setswitchinterval(before)
    assert cache.weight == sum(map(len, cache.values())) <= 50


def test_expired_entries_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("registry.caches.monotonic", lambda: now)
    cache: ExpiringCache[str, str] = ExpiringCache(2)
    cache.put("a", "x", seconds=5)
    assert cache.get("a") == "x"
    now = 105.0
    assert cache.get("a") is None


def test_caches_share_a_limit_and_the_fullest_gives_way() -> None:
    memory = CacheMemory(100)
    gone: list[str] = []
    large: LruCache[str, bytes] = LruCache(200, len, memory=memory)
    small: LruCache[str, bytes] = LruCache(60, len, lambda key, _: gone.append(key), memory=memory)
    counted: LruCache[str, bytes] = LruCache(5, memory=memory)
    counted.put("not in bytes", b"x" * 1000)
    small.put("a", b"x" * 20)
    small.put("b", b"x" * 20)
    large.put("c", b"x" * 60)
    assert (small.weight, large.weight) == (40, 60)
    large.put("d", b"x" * 10)
    assert gone == ["a"], "two thirds of one and a third of the other were full"
    large.put("e", b"x" * 60)
    assert (large.keys(), small.keys()) == (["d", "e"], ["b"])
    assert counted.keys() == ["not in bytes"]


def test_weights_that_change_do_not_keep_the_limit_from_being_kept() -> None:
    memory = CacheMemory(10)
    cache: LruCache[str, list[int]] = LruCache(100, len, memory=memory)
    kept = cache.put("a", [0] * 8)
    kept.clear()
    cache.put("b", [0] * 8)
    assert (len(cache), cache.weight) == (0, 0)


def test_a_cache_that_is_gone_no_longer_counts() -> None:
    memory = CacheMemory(10)
    gone: LruCache[str, bytes] = LruCache(10, len, memory=memory)
    gone.put("a", b"x" * 10)
    del gone
    kept: LruCache[str, bytes] = LruCache(10, len, memory=memory)
    kept.put("a", b"x" * 10)
    assert kept.keys() == ["a"]
