"""Routes requests to endpoints.

Routes match what registry/http/request_info.py has parsed, relative to the tenant: Starlette's own routes would parse
the path a second time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from starlette.types import ASGIApp, Receive, Scope, Send

from registry.api.request import Backend
from registry.controllers.api_services.monitor import Monitor
from registry.http.documents import process
from registry.http.documents.cache import DocumentCache
from registry.http.documents.discovery import DiscoveryEndpoint
from registry.http.documents.health import health_endpoints
from registry.http.documents.openapi import OpenAPIEndpoint
from registry.http.documents.openid import OpenIDEndpoint
from registry.http.request_info import RequestInfo
from registry.http.request_state import STATE, RequestState
from registry.http.resources import ResourceEndpoint
from registry.http.responses import PageNotFound
from registry.http.serving.stopping import Stopping


def router(backend: Backend, monitor: Monitor, stopping: Stopping, jwks_uri: str) -> Router:
    cache = DocumentCache()
    openapi = OpenAPIEndpoint(backend.catalogs, monitor, cache)
    openid = OpenIDEndpoint(backend.tokens, jwks_uri)
    routes = [
        Route(lambda info: info.resource != "", ResourceEndpoint(backend, stopping)),
        Route(lambda info: info.is_api, DiscoveryEndpoint(backend.catalogs, monitor, cache)),
        Route(lambda info: info.document_path.startswith("/openapi/v3/"), openapi.v3),
        Route(path("/openapi/v3"), openapi.v3_index),
        Route(path("/openapi/v2"), openapi.v2),
        *(Route(path(*endpoint.paths), endpoint) for endpoint in health_endpoints(backend.store, stopping)),
        Route(path("/version"), process.version),
        Route(lambda info: info.document_path == "/metrics" and not info.tenant, process.exposition),
        Route(path("/.well-known/openid-configuration"), openid.configuration),
        Route(path("/openid/v1/jwks"), openid.key_set),
        Route(path("/"), process.index),
    ]
    return Router(routes)


Condition = Callable[[RequestInfo], bool]


class Route(NamedTuple):
    """The endpoint for requests that meet a condition."""

    condition: Condition
    endpoint: ASGIApp


class Router:
    """Passes a request to the first route whose condition it meets. Raises PageNotFound if there is none."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        state: RequestState = scope[STATE]
        for condition, endpoint in self._routes:
            if condition(state.info):
                await endpoint(scope, receive, send)
                return
        raise PageNotFound


def path(*paths: str) -> Condition:
    """Returns the condition that the path of a document is one of these."""
    return lambda info: info.document_path in paths
