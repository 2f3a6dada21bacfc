"""GET /: the paths that a tenant can request.

Follows apiserver pkg/server/routes/index.go and kube-aggregator pkg/apiserver/apiserver.go (the paths of APIServices).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

from starlette.types import Receive, Scope, Send

from registry.api.catalog import TenantCatalog
from registry.api.catalogs import Catalogs
from registry.definitions.discovery import group_versions
from registry.http.documents.answers import send_document
from registry.http.documents.cache import Document, DocumentCache, document
from registry.http.request_state import STATE, RequestState

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
    """The paths of all groups and versions: those served here, and those of other servers."""
    versions = {(group, version) for group, version in group_versions(catalog.definitions()) if group}
    versions |= {(group, version) for group, version in catalog.aggregated.servers if group}
    return {path for group, version in versions for path in (f"/apis/{group}", f"/apis/{group}/{version}")}
