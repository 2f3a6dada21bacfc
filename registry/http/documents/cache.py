"""Documents that are made once for a state of the definitions: discovery and OpenAPI.

Those of thousands of definitions take seconds and megabytes: they are made beside the event loop, once for all who ask
at the same time, and what is kept is bounded in bytes.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final

from registry.caches import LruCache
from registry.flowcontrol.evaluation import evaluate
from registry.flowcontrol.time_slice import ClientGone, TimeSlice

# Of all tenants, in one process. A larger document is made each time.
MAX_BYTES: Final = 64 << 20
# Processor time that making one may take: those of thousands of definitions take seconds.
LIMIT_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Document:
    body: bytes
    tag: str  # for ETag, unquoted


def document(body: bytes, tag: str = "") -> Document:
    """With the tag that its bytes give, where none is given."""
    return Document(body, tag or hashlib.sha512(body).hexdigest()[:64].upper())


class DocumentCache:
    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._made: LruCache[Hashable, Document] = LruCache(max_bytes, lambda made: len(made.body))
        self._making: dict[Hashable, asyncio.Future[Document]] = {}

    async def get(self, key: Hashable, make: Callable[[], Document], size: int) -> Document:
        """The document of `key`, by `make` where there is none. `size` is that of what it is made of, in bytes.

        Raises what `make` raises, and what `evaluate` does.
        """
        while True:
            made = self._made.get(key)
            if made is not None:
                return made
            making = self._making.get(key)
            if making is None:
                working = evaluate(make, size, repeatable=True, limit_seconds=LIMIT_SECONDS)
                making = self._making[key] = asyncio.ensure_future(working)
                making.add_done_callback(lambda done: self._store(key, done))
            try:
                # One who goes away does not end what others wait for.
                return await asyncio.shield(making)
            except ClientGone:
                TimeSlice.current().raise_if_gone()  # else it was the client for whom it was made

    def _store(self, key: Hashable, done: asyncio.Future[Document]) -> None:
        del self._making[key]
        if not done.cancelled() and done.exception() is None:
            self._made.put(key, done.result())
