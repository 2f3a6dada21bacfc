"""Everything that is no resource: discovery, OpenAPI, health, version, metrics.

Discovery and OpenAPI are made from the tenant's catalog as it is now, once for each state of the definitions; clients
that keep them ask with If-None-Match.

Follows apiserver pkg/endpoints/discovery and kube-openapi pkg/handler3.
"""

from __future__ import annotations

import asyncio
import hashlib
import platform
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from starlette.types import Scope, Send

from registry.api.catalog import TenantCatalog
from registry.api.errors import method_not_allowed, not_acceptable, resource_not_found
from registry.api.options import Query
from registry.api.request import Backend
from registry.api.strategies.base import Context
from registry.authentication.tokens.keys import DOCUMENT_SECONDS
from registry.builtin.subresources import subresources_of
from registry.codec.json_encode import encode_json
from registry.codec.yaml_encode import encode_yaml
from registry.definitions import discovery
from registry.definitions.model import Definition
from registry.definitions.openapi.documents import openapi_v3, openapi_v3_hashes, openapi_v3_index
from registry.definitions.openapi.proto import encode_v2
from registry.definitions.openapi.v2 import openapi_v2
from registry.http import metrics
from registry.http.document_cache import Document, DocumentCache, document
from registry.http.negotiation import NotAcceptable, Representation, negotiate_discovery
from registry.http.request_info import Target
from registry.http.resources import PageNotFound, prettify
from registry.http.responses import headers_for, send_body
from registry.store.errors import StoreError

# The version of Kubernetes whose API this is; clients read it to know what they can use.
MAJOR, MINOR, GIT_VERSION = "1", "36", "v1.36.2"
# With more definitions than this, documents take longer than others should wait: they are made in a thread.
_FEW = 50
# Readings of definitions whose hashes are kept: some 200 bytes for each version of a group.
_HASHES_LIMIT = 64
_OPENAPI_V2_PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

Headers = Mapping[bytes, bytes]


class Documents:
    def __init__(self, backend: Backend, jwks_uri: str = "") -> None:
        self._backend = backend
        self._jwks_uri = jwks_uri
        self._made = DocumentCache()
        self._hashes: OrderedDict[int, dict[str, str]] = OrderedDict()

    async def __call__(
        self, scope: Scope, send: Send, target: Target, query: Query, context: Context, headers: Headers
    ) -> int:
        path = target.path.rstrip("/") or "/"
        if target.is_api:
            return await self._discovery(scope, send, target, query, context, headers)
        if path == "/openapi/v3" or path.startswith("/openapi/v3/") or path == "/openapi/v2":
            return await self._openapi(scope, send, path, context, headers)
        match path:
            case "/version":
                if scope["method"] not in ("GET", "HEAD"):
                    raise method_not_allowed()
                return await self._json(scope, send, version(), context)
            case "/healthz" | "/livez" | "/readyz" | "/healthz/ping" | "/livez/ping" | "/readyz/ping":
                return await self._health(scope, send, path, context)
            case "/metrics" if not target.tenant:
                media_type = "text/plain; version=0.0.4; charset=utf-8"
                answer = headers_for(media_type, context.warnings)
                return await send_body(send, scope, 200, answer, metrics.exposition())
            case "/.well-known/openid-configuration" | "/openid/v1/jwks":
                return await self._openid(scope, send, path, context)
            case "/":
                return await self._json(scope, send, {"paths": _PATHS}, context)
            case _:
                raise PageNotFound

    async def _json(self, scope: Scope, send: Send, value: Mapping[str, Any], context: Context) -> int:
        headers = headers_for("application/json", context.warnings)
        return await send_body(send, scope, 200, headers, encode_json(value))

    async def _openid(self, scope: Scope, send: Send, path: str, context: Context) -> int:
        """What outsiders verify tokens of service accounts by (pkg/routes/openidmetadata.go)."""
        tokens = self._backend.tokens
        if tokens is None:
            raise PageNotFound
        if path == "/openid/v1/jwks":
            media_type, value = "application/jwk-set+json", await tokens.key_set()
        else:
            address = self._jwks_uri or _address(scope)
            media_type, value = "application/json", await tokens.metadata(context.tenant.name, address)
        headers = [(n, v) for n, v in headers_for(media_type, context.warnings) if n != b"cache-control"]
        headers.append((b"cache-control", f"public, max-age={DOCUMENT_SECONDS}".encode()))
        return await send_body(send, scope, 200, headers, encode_json(value))

    async def _health(self, scope: Scope, send: Send, path: str, context: Context) -> int:
        """Alive is the process; ready is one that reaches its database."""
        code, body = 200, b"ok"
        if path.startswith(("/readyz", "/healthz")) and not path.endswith("/ping"):
            try:
                await self._backend.store.ping()
            except StoreError:
                code, body = 500, b"[-]database failed: reason withheld\nreadyz check failed\n"
        headers = headers_for("text/plain; charset=utf-8", context.warnings)
        return await send_body(send, scope, code, headers, body)

    # -- discovery
    async def _discovery(
        self, scope: Scope, send: Send, target: Target, query: Query, context: Context, headers: Headers
    ) -> int:
        top = not target.version and not target.group
        try:
            representation = negotiate_discovery(headers.get(b"accept", b"").decode("latin-1"), aggregated=top)
        except NotAcceptable as error:
            # The words of paths that are fixed in the original come with details, if empty ones.
            raise not_acceptable(str(error), with_details=str(error).startswith("406:")) from error
        representation = prettify(representation, query, headers)
        catalog = await self._backend.catalogs.current(context.tenant)

        def make() -> Document:
            value = _discovery_document(catalog, target, representation)
            if value is None:
                raise _NothingServed
            return document(encode_yaml(value) if representation.encoding == "yaml" else encode_json(value) + b"\n")

        key = ("discovery", catalog.serial, target.path.rstrip("/"), representation)
        try:
            made = await self._made.get(key, make, aside=_is_large(catalog))
        except _NothingServed:
            if target.version and catalog.is_builtin_group(target.group):
                raise resource_not_found() from None
            raise PageNotFound from None
        media_type = _AGGREGATED if representation.transform else representation.media_type
        return await self._send_with_etag(scope, send, made, media_type, context, headers)

    async def _send_with_etag(
        self, scope: Scope, send: Send, made: Document, media_type: str, context: Context, headers: Headers
    ) -> int:
        """With an ETag, and 304 for a client that has it."""
        answer = headers_for(media_type, context.warnings)
        answer += [(b"etag", f'"{made.tag}"'.encode()), (b"vary", b"Accept")]
        if headers.get(b"if-none-match", b"").decode("latin-1").strip('"') == made.tag:
            return await send_body(send, scope, 304, answer, b"")
        return await send_body(send, scope, 200, answer, made.body)

    # -- OpenAPI
    async def _openapi(self, scope: Scope, send: Send, path: str, context: Context, headers: Headers) -> int:
        catalog = await self._backend.catalogs.current(context.tenant)
        prefix = f"/clusters/{context.tenant.name}" if scope["path"].startswith("/clusters/") else ""
        hashes = await self._openapi_hashes(catalog)
        if path == "/openapi/v2":
            return await self._openapi_v2(scope, send, catalog, hashes, context, headers)
        if path == "/openapi/v3":
            made = document(encode_json(openapi_v3_index(hashes, prefix)))
            # The original leaves the type of the index to be guessed.
            return await self._send_with_etag(scope, send, made, "text/plain; charset=utf-8", context, headers)
        name = path.removeprefix("/openapi/v3/")
        tag = hashes.get(name)
        if tag is None:
            return await send_body(send, scope, 404, headers_for("text/plain; charset=utf-8", context.warnings), b"")

        def make() -> Document:
            return document(_openapi_v3_document(list(catalog.definitions()), name), tag)

        made = await self._made.get(("v3", name, tag), make, aside=_is_large(catalog))
        return await self._send_with_etag(scope, send, made, "application/json", context, headers)

    async def _openapi_v2(
        self,
        scope: Scope,
        send: Send,
        catalog: TenantCatalog,
        hashes: Mapping[str, str],
        context: Context,
        headers: Headers,
    ) -> int:
        """kubectl asks for it in protobuf, to validate what it has no version 3 for."""
        accept = headers.get(b"accept", b"").decode("latin-1")
        protobuf = _OPENAPI_V2_PROTOBUF in accept
        if accept and not protobuf and "json" not in accept and "*/*" not in accept:
            return await send_body(send, scope, 406, headers_for("text/plain; charset=utf-8", context.warnings), b"")
        tag = hashlib.sha512(repr(sorted(hashes.items())).encode()).hexdigest().upper()

        def make() -> Document:
            value = openapi_v2(list(catalog.definitions()), subresources_of)
            return document(encode_v2(value) if protobuf else encode_json(value), tag)

        made = await self._made.get(("v2", tag, protobuf), make, aside=_is_large(catalog))
        media_type = "application/octet-stream" if protobuf else "application/json"
        return await self._send_with_etag(scope, send, made, media_type, context, headers)

    async def _openapi_hashes(self, catalog: TenantCatalog) -> dict[str, str]:
        found = self._hashes.get(catalog.serial)
        if found is None:
            definitions = list(catalog.definitions())
            if _is_large(catalog):
                found = await asyncio.to_thread(openapi_v3_hashes, definitions, subresources_of)
            else:
                found = openapi_v3_hashes(definitions, subresources_of)
            self._hashes[catalog.serial] = found
            if len(self._hashes) > _HASHES_LIMIT:
                self._hashes.popitem(last=False)
        return found


class _NothingServed(Exception):
    """There is no such document."""


def _is_large(catalog: TenantCatalog) -> bool:
    return len(catalog.entries) + len(catalog.bound) > _FEW


def _address(scope: Scope) -> str:
    """Where the request has come to."""
    host, port = scope["server"]
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"


_PATHS = [
    "/.well-known/openid-configuration",
    "/api",
    "/api/v1",
    "/apis",
    "/healthz",
    "/livez",
    "/metrics",
    "/openapi/v2",
    "/openapi/v3",
    "/openid/v1/jwks",
    "/readyz",
    "/version",
]


def _openapi_v3_document(definitions: list[Definition], name: str) -> bytes:
    """`name` is `api/v1` or `apis/<group>/<version>`."""
    *group, version = name.split("/")[1:]
    return encode_json(openapi_v3(definitions, group[0] if group else "", version, subresources_of))


def _discovery_document(catalog: TenantCatalog, target: Target, representation: Representation) -> Any:
    definitions = list(catalog.definitions())
    core = target.path.startswith("/api/") or target.path.rstrip("/") == "/api"
    if target.version:
        return discovery.api_resource_list(definitions, target.group, target.version, subresources_of)
    if core:
        return (
            discovery.aggregated_discovery(definitions, core=True, subresources=subresources_of)
            if representation.transform
            else discovery.api_versions("")
        )
    if target.group:
        return discovery.api_group(definitions, target.group)
    if representation.transform:
        return discovery.aggregated_discovery(definitions, core=False, subresources=subresources_of)
    return discovery.api_group_list(definitions)


def version() -> dict[str, str]:
    """What /version says. The build is this Python; the API is Kubernetes'."""
    return {
        "major": MAJOR,
        "minor": MINOR,
        "emulationMajor": MAJOR,
        "emulationMinor": MINOR,
        "minCompatibilityMajor": MAJOR,
        "minCompatibilityMinor": "35",
        "gitVersion": GIT_VERSION,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "",
        "goVersion": "",
        "compiler": platform.python_implementation(),
        "platform": f"{platform.system().lower()}/{platform.machine()}",
    }
