"""Discovery: /api and /apis, the paths below them down to a version, and / with all paths that a tenant can request.

Made from the tenant's catalog. Follows apiserver pkg/endpoints/discovery and pkg/server/routes/index.go, and
kube-aggregator pkg/apiserver/apiserver.go (the paths of APIServices).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from starlette.types import Receive, Scope, Send

from registry.aggregation.discovery import Resources, merge_aggregated, merge_group, merge_group_list
from registry.aggregation.model import GROUP as API_REGISTRATION
from registry.aggregation.model import local_priority
from registry.api.catalog import TenantCatalog
from registry.api.catalogs import Catalogs
from registry.api.errors import not_acceptable, resource_not_found
from registry.builtin.subresources import subresources_of
from registry.controllers.api_services.monitor import Monitor
from registry.definitions import discovery
from registry.http.documents.answers import (
    Document,
    DocumentCache,
    document,
    require_route,
    send_document,
    send_with_etag,
)
from registry.http.forms import encode_document, prettify
from registry.http.negotiation import (
    JSON,
    MEDIA_TYPES,
    PROTOBUF,
    YAML,
    NotAcceptable,
    Representation,
    negotiate_discovery,
)
from registry.http.request_info import RequestInfo
from registry.http.request_state import STATE, RequestState
from registry.http.responses import PageNotFound

# What a GET may say that its body is, although it has none.
_ROUTE_TYPES: Final = [MEDIA_TYPES[name] for name in (JSON, YAML, PROTOBUF)]
_AGGREGATED: Final = ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


class _NothingServed(Exception):
    """The document does not exist."""


class DiscoveryEndpoint:
    def __init__(self, catalogs: Catalogs, monitor: Monitor, cache: DocumentCache) -> None:
        self._catalogs = catalogs
        self._monitor = monitor
        self._cache = cache

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        state: RequestState = scope[STATE]
        info, tenant = state.info, state.authorized.tenant
        catalog = await self._catalogs.current(tenant)
        if info.is_resource:
            raise _not_found(info, catalog)  # the name of the resource is empty: /api/v1//widgets
        if _is_route(info, catalog):
            require_route(scope, _ROUTE_TYPES)
        representation = _representation(state, catalog)
        resources = await self._monitor.resources(tenant, catalog.aggregated) if catalog.aggregated else {}

        def make() -> Document:
            value = _document(catalog, info, representation, resources)
            if value is None:
                raise _NothingServed
            return document(encode_document(value, representation))

        known = tuple((answer.serial, answer.is_current) for answer in resources.values())
        key = ("discovery", catalog.serial, info.document_path, representation, known)
        try:
            answer = await self._cache.get(key, make, catalog.documented_size)
        except _NothingServed:
            raise _not_found(info, catalog) from None
        media_type = representation.media_type + (_AGGREGATED if representation.transform else "")
        await send_with_etag(send, scope, answer, media_type)


def _group_versions(catalog: TenantCatalog) -> set[tuple[str, str]]:
    """Returns the versions of all groups: those served here, and those of other servers."""
    return discovery.group_versions(catalog.definitions()) | catalog.aggregated.servers.keys()


def _is_served(info: RequestInfo, catalog: TenantCatalog) -> bool:
    """Whether there is such a group or version, here or at another server."""
    served = _group_versions(catalog)
    if info.version:
        return (info.group, info.version) in served
    return not info.group or any(group == info.group for group, _ in served)


def _not_found(info: RequestInfo, catalog: TenantCatalog) -> Exception:
    return resource_not_found() if info.version and catalog.is_builtin_group(info.group) else PageNotFound()


def _is_route(info: RequestInfo, catalog: TenantCatalog) -> bool:
    """Whether kube-apiserver has a route for this path.

    Its handlers of /apis, of groups and of custom resources ignore the method; the aggregator's own group has a route.
    """
    if info.document_path in ("/api", f"/apis/{API_REGISTRATION}"):
        return True
    definitions = catalog.definitions() if info.version else ()
    return any(d.builtin and d.group == info.group and info.version in d.versions for d in definitions)


def _representation(state: RequestState, catalog: TenantCatalog) -> Representation:
    info = state.info
    aggregated = not info.version and not info.group
    builtin = bool(info.version) and catalog.is_builtin_group(info.group)
    try:
        representation = negotiate_discovery(
            state.header(b"accept"),
            aggregated=aggregated,
            builtin_resources=builtin,
            fixed=builtin or info.document_path == "/api",
        )
    except NotAcceptable as error:
        if not _is_served(info, catalog):
            raise _not_found(info, catalog) from None  # a path without a route has no media types
        # On fixed paths of kube-apiserver the error has details, although empty ones.
        raise not_acceptable(str(error), with_details=str(error).startswith("406:")) from error
    return prettify(representation, state.info.query, state.headers)


def _document(
    catalog: TenantCatalog,
    info: RequestInfo,
    representation: Representation,
    resources: Mapping[tuple[str, str], Resources],
) -> Any:
    local = _local_document(catalog, info, representation)
    aggregated = catalog.aggregated
    if not aggregated or info.version or (isinstance(local, dict) and local.get("kind") == "APIVersions"):
        return local

    def priority(group: str, version: str) -> tuple[int, int]:
        return local_priority(group, version, builtin=catalog.is_builtin_version(group, version))

    if info.group:
        if not any(group == info.group for group, _ in aggregated.servers):
            return local
        head = {"kind": "APIGroup", "apiVersion": "v1"}
        return {**head, **merge_group(local, aggregated, info.group, priority)}
    if representation.transform:
        core = info.document_path == "/api"
        return merge_aggregated(local, aggregated, resources, priority, core=core)
    return merge_group_list(local, aggregated, priority)


def _local_document(catalog: TenantCatalog, info: RequestInfo, representation: Representation) -> Any:
    definitions = list(catalog.definitions())
    core = info.path.startswith("/api/") or info.document_path == "/api"
    if info.version:
        return discovery.api_resource_list(definitions, info.group, info.version, subresources_of)
    if core and not representation.transform:
        return discovery.api_versions("")
    if info.group:
        return discovery.api_group(definitions, info.group)
    if representation.transform:
        return discovery.aggregated_discovery(definitions, core=core, subresources=subresources_of)
    return discovery.api_group_list(definitions)


# -- GET /
_OF_EVERY_TENANT: Final = tuple(
    """
    /.well-known/openid-configuration /api /api/v1 /apis /apis/ /openapi/v2 /openapi/v3 /openapi/v3/
    /openid/v1/jwks /version
    """.split()
)


class RootEndpoint:
    """`paths` are those of the process, beside the tenant's."""

    def __init__(self, catalogs: Catalogs, cache: DocumentCache, paths: Iterable[str]) -> None:
        self._catalogs = catalogs
        self._cache = cache
        self._paths = {*_OF_EVERY_TENANT, *paths}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        state: RequestState = scope[STATE]
        catalog = await self._catalogs.current(state.authorized.tenant)

        def make() -> Document:
            paths = sorted(self._paths | _group_paths(catalog))
            return document(json.dumps({"paths": paths}, indent=2).encode())

        listing = await self._cache.get(("paths", catalog.serial), make, catalog.documented_size)
        await send_document(send, scope, 200, "application/json", listing.body)


def _group_paths(catalog: TenantCatalog) -> set[str]:
    versions = _group_versions(catalog)
    return {path for group, version in versions if group for path in (f"/apis/{group}", f"/apis/{group}/{version}")}
