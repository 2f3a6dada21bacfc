"""OpenAPI of the tenant's resources, made from its catalog: /openapi/v2, and /openapi/v3 by group and version.

Follows kube-openapi pkg/handler and pkg/handler3.
"""

from __future__ import annotations

import datetime
import email.utils
import hashlib
from functools import partial
from typing import Final

from starlette.types import Receive, Scope, Send

from registry.aggregation.openapi import merge_v2
from registry.api.catalog import TenantCatalog
from registry.api.catalogs import Catalogs
from registry.builtin.subresources import subresources_of
from registry.caches import LruCache
from registry.codec.json_encode import encode_json
from registry.controllers.api_services.monitor import Monitor
from registry.definitions.openapi.documents import (
    document_path,
    openapi_v3_document,
    openapi_v3_hashes,
    openapi_v3_index,
    served_versions,
)
from registry.definitions.openapi.proto import (
    ACCEPTED_V2,
    ACCEPTED_V3,
    MEDIA_TYPE_V2,
    MEDIA_TYPE_V3,
    encode_v2,
    encode_v3,
)
from registry.definitions.openapi.v2 import openapi_v2
from registry.flowcontrol.evaluation import evaluate
from registry.http.documents.answers import (
    LIMIT_SECONDS,
    TEXT,
    Document,
    DocumentCache,
    document,
    send_nothing,
    send_with_etag,
)
from registry.http.negotiation import negotiate_types
from registry.http.request_state import STATE, RequestState
from registry.http.responses import Headers, headers_for, send_body
from registry.store.types import Tenant

# The number of catalogs whose hashes are cached: some 200 bytes for each group version.
_HASHES_LIMIT: Final = 64
_JSON: Final = "application/json"
# What a version without a schema takes in a document.
_VERSION_BYTES: Final = 16 * 1024


class OpenAPIEndpoint:
    def __init__(self, catalogs: Catalogs, monitor: Monitor, cache: DocumentCache) -> None:
        self._catalogs = catalogs
        self._monitor = monitor
        self._cache = cache
        self._hashes: LruCache[int, dict[str, str]] = LruCache(_HASHES_LIMIT)

    async def v2(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves OpenAPI v2. kubectl requests it in protobuf, to validate resources that have no version 3."""
        state: RequestState = scope[STATE]
        media_type = negotiate_types(state.header(b"accept"), (_JSON, *ACCEPTED_V2))
        if media_type is None:
            await send_nothing(send, scope, 406)
            return
        protobuf = media_type in ACCEPTED_V2
        catalog = await self._catalogs.current(state.authorized.tenant)
        hashes = await self._hashes_of(catalog)
        parts = await self._monitor.openapi.get(state.authorized.tenant, catalog.aggregated.servers.values())
        facts = [*sorted(hashes.items()), *((part.server.name, part.serial) for part in parts)]
        tag = hashlib.sha512(repr(facts).encode()).hexdigest().upper()

        def make() -> Document:
            value = openapi_v2(list(catalog.definitions()), subresources_of)
            if parts:
                value = merge_v2(value, parts)
            return document(encode_v2(value) if protobuf else encode_json(value), tag)

        answer = await self._cache.get(
            ("v2", tag, protobuf), make, catalog.documented_size, lambda: _expected_bytes(catalog)
        )
        await send_with_etag(send, scope, answer, MEDIA_TYPE_V2 if protobuf else _JSON)

    async def v3_index(self, scope: Scope, receive: Receive, send: Send) -> None:
        state: RequestState = scope[STATE]
        tenant = state.authorized.tenant
        catalog = await self._catalogs.current(tenant)
        hashes = await self._hashes_of(catalog)
        if catalog.aggregated:
            hashes = dict(sorted({**hashes, **await self._aggregated_hashes(tenant, catalog)}.items()))
        prefix = _prefix(state)
        # kube-apiserver leaves the media type of the index to detection.
        await send_with_etag(send, scope, document(encode_json(openapi_v3_index(hashes, prefix))), TEXT)

    async def v3_without_name(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send_nothing(send, scope, 404)

    async def v3(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves a group version at /openapi/v3/api/v1 or /openapi/v3/apis/<group>/<version>, or a page of the server.

        As in kube-apiserver, a document has the same ETag in both encodings, and the encoding depends on Accept.
        """
        state: RequestState = scope[STATE]
        catalog = await self._catalogs.current(state.authorized.tenant)
        name = state.info.path.removeprefix("/openapi/v3/")
        tag = (await self._hashes_of(catalog)).get(name)
        if tag is None:
            await send_nothing(send, scope, 404)
            return
        media_type = negotiate_types(state.header(b"accept"), (_JSON, *ACCEPTED_V3))
        if media_type is None:
            await send_nothing(send, scope, 406)
            return
        protobuf = media_type in ACCEPTED_V3
        wanted = state.info.query.get("hash", [""])[0]
        if wanted and wanted != tag:
            await _redirect(send, scope, f"{_prefix(state)}/openapi/v3/{name}?hash={tag}")
            return

        def make() -> Document:
            value = openapi_v3_document(list(catalog.definitions()), name, subresources_of)
            assert value is not None, "there is a hash, and so a document"
            return document(encode_v3(value) if protobuf else encode_json(value), tag)

        answer = await self._cache.get(
            ("v3", name, tag, protobuf), make, catalog.documented_size, lambda: _expected_bytes(catalog, name)
        )
        media_type = MEDIA_TYPE_V3 if protobuf else _JSON
        await send_with_etag(send, scope, answer, media_type, _immutable() if wanted else ())

    async def _aggregated_hashes(self, tenant: Tenant, catalog: TenantCatalog) -> dict[str, str]:
        """Returns the hashes of other servers' documents; such requests are proxied (middleware/aggregation.py)."""
        await self._monitor.resources(tenant, catalog.aggregated)
        servers = catalog.aggregated.servers.values()
        hashes = {server.path.strip("/"): self._monitor.availability.openapi(tenant, server) for server in servers}
        return {path: tag for path, tag in hashes.items() if tag}

    async def _hashes_of(self, catalog: TenantCatalog) -> dict[str, str]:
        hashes = self._hashes.get(catalog.serial)
        if hashes is None:
            definitions = list(catalog.definitions())
            work = partial(openapi_v3_hashes, definitions, subresources_of)
            hashes = await evaluate(work, catalog.documented_size, repeatable=True, limit_seconds=LIMIT_SECONDS)
            self._hashes.put(catalog.serial, hashes)
        return hashes


def _expected_bytes(catalog: TenantCatalog, name: str = "") -> int:
    """Returns about how long the document is: of all versions, or of the group version at this path."""
    served = served_versions(catalog.definitions())
    count = sum(
        1 for definition, version in served if not name or document_path(definition.group, version.name) == name
    )
    return count * _VERSION_BYTES


def _prefix(state: RequestState) -> str:
    """Returns the prefix of all paths of the tenant, if the path names it."""
    return f"/clusters/{state.authorized.tenant.name}" if state.info.tenant else ""


def _immutable() -> Headers:
    """Returns headers for a document with a hash, which never changes: it may be cached for a year."""
    in_a_year = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=365)
    expires = email.utils.format_datetime(in_a_year, usegmt=True)
    return [(b"cache-control", b"public, immutable"), (b"expires", expires.encode())]


async def _redirect(send: Send, scope: Scope, address: str) -> None:
    """Redirects from an outdated hash of a document to its present one, whose path consists of plain characters."""
    state: RequestState = scope[STATE]
    headers = headers_for("text/html; charset=utf-8", state.warnings)
    headers += [(b"location", address.encode()), (b"vary", b"Accept")]
    await send_body(send, scope, 301, headers, b"")
