"""What a request can be served by while all definitions of its tenant are read for the first time.

Thousands of definitions take a second to read. The requests of that second need one definition each: that of their
resource, which is read alone, with a catalog for this request only. Whatever looks for another definition in such a
catalog gets CatalogIncomplete, and the request is served again once all definitions are there (verbs/driver.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

from registry.store.types import ObjectKey

V = TypeVar("V")
C = TypeVar("C")


class CatalogIncomplete(Exception):
    """The request needs definitions that have not been read yet."""


class SingleEntry(Mapping[ObjectKey, V], Generic[V]):
    """The entry of one definition, or that there is none. All others are unknown: asking raises CatalogIncomplete."""

    def __init__(self, key: ObjectKey, entry: V | None) -> None:
        self._key = key
        self._entry = entry

    def __getitem__(self, key: ObjectKey) -> V:
        if key != self._key:
            raise CatalogIncomplete
        if self._entry is None:
            raise KeyError(key)
        return self._entry

    def __iter__(self) -> Iterator[ObjectKey]:
        raise CatalogIncomplete

    def __len__(self) -> int:
        raise CatalogIncomplete


class FirstReading(Generic[C]):
    """The reading of a tenant's definitions by a task that no request owns, and what requests are served by meanwhile.

    `parts` are catalogs by the definition that they contain.
    """

    def __init__(self, task: asyncio.Task[C]) -> None:
        self._task = task
        self._is_long: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.parts: dict[ObjectKey, C] = {}

    def note_length(self) -> None:
        """To be called when there is more to read than a first chunk."""
        if not self._is_long.done():
            self._is_long.set_result(None)

    async def wait(self) -> bool:
        """Waits until it is over, or known to be long; returns whether it is over, perhaps in failure."""
        await asyncio.wait((self._task, self._is_long), return_when=asyncio.FIRST_COMPLETED)
        return self._task.done()
