"""Routes requests to endpoints, by what registry/http/request_info.py has parsed, relative to the tenant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from starlette.types import ASGIApp, Receive, Scope, Send

from registry.api.errors import resource_not_found
from registry.api.request import Backend
from registry.controllers.api_services.monitor import Monitor
from registry.http.documents import process
from registry.http.documents.answers import DocumentCache
from registry.http.documents.discovery import DiscoveryEndpoint, RootEndpoint
from registry.http.documents.health import health_endpoints
from registry.http.documents.openapi import OpenAPIEndpoint
from registry.http.documents.openid import OpenIDEndpoint
from registry.http.request_info import RequestInfo
from registry.http.request_state import STATE
from registry.http.resources import ResourceEndpoint
from registry.http.responses import PageNotFound
from registry.http.serving.stopping import Stopping


def router(backend: Backend, monitor: Monitor, stopping: Stopping, jwks_uri: str) -> ASGIApp:
    cache = DocumentCache()
    openapi = OpenAPIEndpoint(backend.catalogs, monitor, cache)
    openid = OpenIDEndpoint(backend.tokens, jwks_uri)
    health = health_endpoints(backend, stopping)
    routes = [
        # kube-apiserver has no route for an empty segment at the beginning, and none for a group without a name.
        Route(lambda info: info.path.startswith(("//", "/apis//")), _page_not_found),
        Route(lambda info: info.resource != "", ResourceEndpoint(backend, stopping)),
        Route(lambda info: info.is_api, DiscoveryEndpoint(backend.catalogs, monitor, cache)),
        Route(lambda info: info.path == "/openapi/v3/", openapi.v3_without_name),
        Route(lambda info: info.path.startswith("/openapi/v3/"), openapi.v3),
        Route(path("/openapi/v3"), openapi.v3_index),
        Route(lambda info: info.path == "/openapi/v2", openapi.v2),
        *(Route(path(*endpoint.paths), endpoint) for endpoint in health),
        Route(lambda info: info.path == "/metrics" and not info.tenant, process.MetricsEndpoint()),
        *service("/version", process.version),
        *service("/.well-known/openid-configuration", openid.configuration),
        *service("/openid/v1/jwks", openid.key_set),
        Route(
            path("/", "/index.html"),
            RootEndpoint(backend.catalogs, cache, ["/metrics", *(p for e in health for p in e.paths)]),
        ),
    ]
    return Router(routes)


Condition = Callable[[RequestInfo], bool]


class Route(NamedTuple):
    """The endpoint of requests that meet a condition."""

    condition: Condition
    endpoint: ASGIApp


class Router:
    """Passes each request to the endpoint of the first route that it meets. Raises PageNotFound if there is none."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        info = scope[STATE].info
        for condition, endpoint in self._routes:
            if condition(info):
                await endpoint(scope, receive, send)
                return
        raise PageNotFound


def path(*paths: str) -> Condition:
    """Returns the condition that the path is one of these, without a trailing slash (PathRecorderMux in apiserver)."""
    return lambda info: info.path in paths


def service(root: str, endpoint: ASGIApp) -> tuple[Route, Route]:
    """Returns the routes of a web service of go-restful: it ignores trailing slashes, and answers all that is below."""
    return (
        Route(lambda info: info.document_path == root, endpoint),
        Route(lambda info: info.path.startswith(f"{root}/"), _resource_not_found),
    )


async def _resource_not_found(scope: Scope, receive: Receive, send: Send) -> None:
    raise resource_not_found()


async def _page_not_found(scope: Scope, receive: Receive, send: Send) -> None:
    raise PageNotFound
