"""Routes requests to endpoints.

Routes match what registry/http/request_info.py has parsed, relative to the tenant: Starlette's own routes would parse
the path a second time.
"""

from __future__ import annotations

from collections.abc import Callable

from starlette.datastructures import URLPath
from starlette.routing import BaseRoute, Match, NoMatchFound, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from registry.api.request import Backend
from registry.controllers.api_services.monitor import Monitor
from registry.http.documents import process
from registry.http.documents.cache import DocumentCache
from registry.http.documents.discovery import DiscoveryEndpoint
from registry.http.documents.health import health_endpoints
from registry.http.documents.openapi import OpenAPIEndpoint
from registry.http.documents.openid import OpenIDEndpoint
from registry.http.documents.root import RootEndpoint
from registry.http.request_info import RequestInfo
from registry.http.request_state import STATE
from registry.http.resources import ResourceEndpoint
from registry.http.responses import PageNotFound
from registry.http.serving.stopping import Stopping


def router(backend: Backend, monitor: Monitor, stopping: Stopping, jwks_uri: str) -> Router:
    cache = DocumentCache()
    openapi = OpenAPIEndpoint(backend.catalogs, monitor, cache)
    openid = OpenIDEndpoint(backend.tokens, jwks_uri)
    health = health_endpoints(backend, stopping)
    routes = [
        Route(lambda info: info.resource != "", ResourceEndpoint(backend, stopping)),
        Route(lambda info: info.is_api, DiscoveryEndpoint(backend.catalogs, monitor, cache)),
        Route(lambda info: info.path == "/openapi/v3/", openapi.v3_without_name),
        Route(lambda info: info.document_path.startswith("/openapi/v3/"), openapi.v3),
        Route(path("/openapi/v3"), openapi.v3_index),
        Route(lambda info: info.path == "/openapi/v2", openapi.v2),
        *(Route(path(*endpoint.paths), endpoint) for endpoint in health),
        Route(path("/version"), process.version),
        Route(lambda info: info.document_path == "/metrics" and not info.tenant, process.exposition),
        Route(path("/.well-known/openid-configuration"), openid.configuration),
        Route(path("/openid/v1/jwks"), openid.key_set),
        Route(path("/"), RootEndpoint(backend.catalogs, cache, ["/metrics", *(p for e in health for p in e.paths)])),
    ]
    return Router(routes, redirect_slashes=False, default=_page_not_found)


Condition = Callable[[RequestInfo], bool]


class Route(BaseRoute):
    """A route for requests that meet a condition. The endpoint is an ASGI application."""

    def __init__(self, condition: Condition, endpoint: ASGIApp) -> None:
        self._condition = condition
        self._endpoint = endpoint

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        return (Match.FULL if self._condition(scope[STATE].info) else Match.NONE), {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._endpoint(scope, receive, send)

    def url_path_for(self, name: str, /, **path_params: object) -> URLPath:
        raise NoMatchFound(name, path_params)


def path(*paths: str) -> Condition:
    """Returns the condition that the path of a document is one of these."""
    return lambda info: info.document_path in paths


async def _page_not_found(scope: Scope, receive: Receive, send: Send) -> None:
    raise PageNotFound
