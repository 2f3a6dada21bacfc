"""OpenAPI of the tenant's resources, made from its catalog: /openapi/v2, and /openapi/v3 by group and version.

Follows kube-openapi pkg/handler and pkg/handler3.
"""

from __future__ import annotations

import asyncio
import hashlib
from typing import Final

from starlette.types import Receive, Scope, Send

from registry.api.catalog import Catalogs, TenantCatalog
from registry.builtin.subresources import subresources_of
from registry.caches import LruCache
from registry.codec.json_encode import encode_json
from registry.definitions.model import Definition
from registry.definitions.openapi.documents import openapi_v3, openapi_v3_hashes, openapi_v3_index
from registry.definitions.openapi.proto import encode_v2
from registry.definitions.openapi.v2 import openapi_v2
from registry.http.documents.answers import TEXT, is_large, send_document, send_with_etag
from registry.http.documents.cache import Document, DocumentCache, document
from registry.http.request_state import STATE, RequestState

# Catalogs whose hashes are kept: some 200 bytes for each version of a group.
_HASHES_LIMIT: Final = 64
_V2_PROTOBUF: Final = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"


class OpenAPIEndpoint:
    def __init__(self, catalogs: Catalogs, cache: DocumentCache) -> None:
        self._catalogs = catalogs
        self._cache = cache
        self._hashes: LruCache[int, dict[str, str]] = LruCache(_HASHES_LIMIT)

    async def v2(self, scope: Scope, receive: Receive, send: Send) -> None:
        """kubectl asks for protobuf, to validate resources that have no version 3."""
        state: RequestState = scope[STATE]
        catalog = await self._catalogs.current(state.authorized.tenant)
        hashes = await self._hashes_of(catalog)
        accept = state.header(b"accept")
        protobuf = _V2_PROTOBUF in accept
        if accept and not protobuf and "json" not in accept and "*/*" not in accept:
            await send_document(send, scope, 406, TEXT, b"")
            return
        tag = hashlib.sha512(repr(sorted(hashes.items())).encode()).hexdigest().upper()

        def make() -> Document:
            value = openapi_v2(list(catalog.definitions()), subresources_of)
            return document(encode_v2(value) if protobuf else encode_json(value), tag)

        found = await self._cache.get(("v2", tag, protobuf), make, aside=is_large(catalog))
        await send_with_etag(send, scope, found, "application/octet-stream" if protobuf else "application/json")

    async def v3_index(self, scope: Scope, receive: Receive, send: Send) -> None:
        state: RequestState = scope[STATE]
        tenant = state.authorized.tenant
        hashes = await self._hashes_of(await self._catalogs.current(tenant))
        prefix = f"/clusters/{tenant.name}" if state.info.tenant else ""
        # kube-apiserver leaves the media type of the index to be guessed.
        await send_with_etag(send, scope, document(encode_json(openapi_v3_index(hashes, prefix))), TEXT)

    async def v3(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One version of a group: /openapi/v3/api/v1, /openapi/v3/apis/<group>/<version>."""
        state: RequestState = scope[STATE]
        catalog = await self._catalogs.current(state.authorized.tenant)
        name = state.info.document_path.removeprefix("/openapi/v3/")
        tag = (await self._hashes_of(catalog)).get(name)
        if tag is None:
            await send_document(send, scope, 404, TEXT, b"")
            return

        def make() -> Document:
            return document(_v3_document(list(catalog.definitions()), name), tag)

        found = await self._cache.get(("v3", name, tag), make, aside=is_large(catalog))
        await send_with_etag(send, scope, found, "application/json")

    async def _hashes_of(self, catalog: TenantCatalog) -> dict[str, str]:
        found = self._hashes.get(catalog.serial)
        if found is None:
            definitions = list(catalog.definitions())
            if is_large(catalog):
                found = await asyncio.to_thread(openapi_v3_hashes, definitions, subresources_of)
            else:
                found = openapi_v3_hashes(definitions, subresources_of)
            self._hashes.put(catalog.serial, found)
        return found


def _v3_document(definitions: list[Definition], name: str) -> bytes:
    *group, version = name.split("/")[1:]
    return encode_json(openapi_v3(definitions, group[0] if group else "", version, subresources_of))
