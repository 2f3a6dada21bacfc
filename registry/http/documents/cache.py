"""Caches documents for a state of the definitions: discovery and OpenAPI.

Those of thousands of definitions take seconds and megabytes: they are made outside of the event loop, once for all
concurrent requests, and the cache is bounded in bytes.
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
from registry.http.responses import hold

# For all tenants, in one process. A larger document is made each time.
MAX_BYTES: Final = 64 << 20
# The limit on processor time for a document: those of thousands of definitions take seconds.
LIMIT_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Document:
    body: bytes
    tag: str  # for ETag, unquoted


def document(body: bytes, tag: str = "") -> Document:
    """Returns a document; the default tag is a hash of its bytes."""
    return Document(body, tag or hashlib.sha512(body).hexdigest()[:64].upper())


class DocumentCache:
    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._documents: LruCache[Hashable, Document] = LruCache(max_bytes, lambda made: len(made.body))
        self._making: dict[Hashable, asyncio.Future[Document]] = {}

    async def get(
        self, key: Hashable, make: Callable[[], Document], size: int, expected: Callable[[], int] = lambda: 0
    ) -> Document:
        """Returns the document of `key`, made by `make` if there is none. `size` is that of its sources, in bytes;
        `expected` about that of the document, which takes several times as much while it is made: that of the built-in
        kinds is long as well.

        Raises the errors of `make`, those of `evaluate`, and TooManyRequests if there is no room for the document.
        """
        while True:
            cached = self._documents.get(key)
            if cached is not None:
                return cached
            making = self._making.get(key)
            if making is None:
                length = expected()
                hold(length)
                working = evaluate(make, max(size, length), repeatable=True, limit_seconds=LIMIT_SECONDS)
                making = self._making[key] = asyncio.ensure_future(working)
                making.add_done_callback(lambda done: self._store(key, done))
            try:
                # A client that disconnects does not cancel what others wait for.
                return await asyncio.shield(making)
            except ClientGone:
                TimeSlice.current().raise_if_gone()  # else another client, for which it was made, is gone
            finally:
                del making  # its exception refers to this frame

    def _store(self, key: Hashable, done: asyncio.Future[Document]) -> None:
        del self._making[key]
        if not done.cancelled() and done.exception() is None:
            self._documents.put(key, done.result())
