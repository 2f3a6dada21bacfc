"""The OpenAPI v2 documents of other servers, fetched on request and cached for a while.

A request waits for the servers until their fetches are WAIT_SECONDS old; later results are in the next response.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterable
from typing import Final, NamedTuple

from registry.aggregation.backends import Backends
from registry.aggregation.model import APIServer
from registry.aggregation.openapi import Json, ServerDocument, memory_of, own_part
from registry.caches import LruCache
from registry.codec.model import DecodeError
from registry.definitions.openapi.proto import NotOpenAPI, encode_v2
from registry.store.types import Tenant, TenantId
from registry.tasks import cancel
from registry.webhooks.answers import decode_bounded_json, run_aside
from registry.webhooks.connection import Unreachable
from registry.webhooks.streaming import TooManyConnections

WAIT_SECONDS: Final = 0.08
_FRESH_SECONDS: Final = 60.0
_FETCH_SECONDS: Final = 5.0
_DOCUMENT_BYTES: Final = 4 * 1024 * 1024
_MAX_VALUES: Final = 200_000
# Bytes of the decoded parts of a tenant's servers that are merged; those that do not fit are not in its document.
_BYTES_OF_TENANT: Final = 24 * 1024 * 1024
# Limits per process: bytes of decoded parts, and documents fetched at a time.
_CACHE_BYTES: Final = 48 * 1024 * 1024
_AT_A_TIME: Final = 32
_SERIALS: Final = itertools.count(1)

_Key = tuple[TenantId, str]


class _CachedPart(NamedTuple):
    server: APIServer
    document: Json
    etag: str
    at: float
    size: int
    serial: int


class _Fetch(NamedTuple):
    task: asyncio.Task[None]
    began: float


class OpenAPIDocuments:
    def __init__(self, backends: Backends) -> None:
        self._backends = backends
        self._cache: LruCache[_Key, _CachedPart] = LruCache(
            _CACHE_BYTES, lambda kept: kept.size + len(kept.etag) + 1024
        )
        self._fetching: dict[_Key, _Fetch] = {}

    async def aclose(self) -> None:
        await cancel(*(fetch.task for fetch in self._fetching.values()))

    async def get(self, tenant: Tenant, servers: Iterable[APIServer]) -> list[ServerDocument]:
        """The parts of the servers that are known after waiting."""
        servers = list(servers)
        fetches = [fetch for server in servers if (fetch := self._refresh(tenant, server)) is not None]
        left = max((fetch.began + WAIT_SECONDS for fetch in fetches), default=0.0) - time.monotonic()
        if left > 0:
            await asyncio.wait([fetch.task for fetch in fetches], timeout=left)
        documents, room = [], _BYTES_OF_TENANT
        for server in servers:
            entry = self._cache.peek((tenant.id, server.name))
            if entry is not None and entry.server == server and entry.document["paths"] and entry.size <= room:
                room -= entry.size
                documents.append(ServerDocument(server, entry.document, entry.serial))
        return documents

    def _refresh(self, tenant: Tenant, server: APIServer) -> _Fetch | None:
        key = (tenant.id, server.name)
        entry = self._cache.peek(key)
        if entry is not None and entry.server == server and time.monotonic() - entry.at < _FRESH_SECONDS:
            return None
        fetch = self._fetching.get(key)
        if fetch is None:
            if len(self._fetching) >= _AT_A_TIME:
                return None
            task = asyncio.create_task(self._fetch(tenant, server, entry))
            task.add_done_callback(lambda _: self._fetching.pop(key, None))
            fetch = self._fetching[key] = _Fetch(task, time.monotonic())
        return fetch

    async def _fetch(self, tenant: Tenant, server: APIServer, before: _CachedPart | None) -> None:
        if before is not None and before.server != server:
            before = None
        entry = before or _CachedPart(server, {"paths": {}, "definitions": {}}, "", 0.0, 0, next(_SERIALS))
        try:
            answer = await self._backends.fetch(
                tenant, server, "/openapi/v2", seconds=_FETCH_SECONDS, limit_bytes=_DOCUMENT_BYTES, etag=entry.etag
            )
            if answer.status == 200:
                part, size = await run_aside(len(answer.body), lambda: _measured_part(answer.body, server))
                etag = answer.headers.get(b"etag", b"").decode("latin-1")
                is_same = await run_aside(len(answer.body), lambda: part == entry.document)
                serial = entry.serial if is_same else next(_SERIALS)
                entry = _CachedPart(server, part, etag, 0.0, size, serial)
        except (Unreachable, TooManyConnections, TimeoutError, DecodeError):
            pass  # keeps the previous document
        self._cache.put((tenant.id, server.name), entry._replace(at=time.monotonic()))


def _measured_part(body: bytes, server: APIServer) -> tuple[Json, int]:
    """The server's part of its document, and what it takes in memory. Raises DecodeError.

    A document that is no OpenAPI is refused as a whole: no client could read the tenant's document with it.
    """
    part = own_part(decode_bounded_json(body, max_values=_MAX_VALUES), server)
    try:
        encode_v2(part)
    except NotOpenAPI as error:
        raise DecodeError(f"the document is no OpenAPI v2: {error}") from error
    return part, memory_of(part)
