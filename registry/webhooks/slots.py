"""Limits of concurrency by key, which take no memory for keys that are not in use."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Slots(Generic[K]):
    """`count` holders at once of each key, first come, first served."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._entries: dict[K, tuple[asyncio.Semaphore, list[None]]] = {}

    @asynccontextmanager
    async def hold(self, key: K) -> AsyncIterator[None]:
        entry = self._entries.get(key) or self._entries.setdefault(key, (asyncio.Semaphore(self._count), []))
        semaphore, users = entry
        users.append(None)
        try:
            async with semaphore:
                yield
        finally:
            users.pop()
            if not users:
                del self._entries[key]
