"""Methods beside those that clients use: what has a route for each method answers 405, what has none does not care.

In kube-apiserver built-in kinds and most documents have routes; custom resources, /apis, the groups and OpenAPI are
served by handlers of their own.
"""

from __future__ import annotations

import pytest

from tests.api.client import Body, Client
from tests.api.errors import failure
from tests.api.widgets import DEFINITIONS, GROUP, NAMESPACES, WIDGETS
from tests.application import shares_application

MAPS = f"{NAMESPACES}/default/configmaps"
REVIEWS = "/apis/authorization.k8s.io/v1"
WATCH_OF_MAPS = "/api/v1/watch/namespaces/default/configmaps"
WATCH_OF_WIDGETS = f"/apis/{GROUP}/v1/watch/namespaces/default/widgets"
ROUTES = [
    MAPS,
    f"{MAPS}/kube-root-ca.crt",
    "/api/v1/configmaps",
    DEFINITIONS,
    f"{DEFINITIONS}/widgets.{GROUP}/status",
    "/api",
    "/api/v1",
    "/apis/apiextensions.k8s.io/v1",
    "/apis/apiregistration.k8s.io",
    "/version",
    "/.well-known/openid-configuration",
    "/openid/v1/jwks",
]
HANDLERS = [
    "/apis",
    f"/apis/{GROUP}",
    f"/apis/{GROUP}/v1",
    "/apis/apiextensions.k8s.io",
    "/openapi/v2",
    "/openapi/v3",
    "/",
]


@shares_application
@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "TRACE"])
@pytest.mark.parametrize("path", ROUTES)
async def test_routes_are_matched_by_method(shared_api: Client, path: str, method: str) -> None:
    answer = await shared_api.request(method, path)
    assert answer.code == 405
    if method != "HEAD":
        assert answer.json["reason"] == "MethodNotAllowed"
        assert answer.json["message"] == "the server does not allow this method on the requested resource"


@shares_application
@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "POST"])
@pytest.mark.parametrize("path", HANDLERS)
async def test_one_handler_may_serve_all_methods(shared_api: Client, path: str, method: str) -> None:
    assert (await shared_api.request(method, path)).code == 200


@shares_application
@pytest.mark.parametrize(
    "method, path, code, reason",
    [
        pytest.param("POST", "/api/v1/configmaps", 405, "MethodNotAllowed", id="a create in no namespace"),
        pytest.param("DELETE", "/api/v1/configmaps", 405, "MethodNotAllowed", id="a deletion in all namespaces"),
        pytest.param("POST", f"{REVIEWS}/localsubjectaccessreviews", 404, "NotFound", id="what is never listed"),
        pytest.param("POST", "/api/v1", 405, "MethodNotAllowed", id="discovery of a version"),
        pytest.param("POST", "/api/v2", 404, "NotFound", id="discovery of an unknown version"),
        pytest.param("POST", f"/apis/{GROUP}/v1/widgets", 404, "", id="a custom resource in no namespace"),
        pytest.param("HEAD", WIDGETS, 200, "", id="custom resources by HEAD"),
        pytest.param("GET", f"{NAMESPACES}//status", 400, "BadRequest", id="a subresource of no object"),
        pytest.param("HEAD", f"{NAMESPACES}//status", 405, "", id="a subresource of no object by HEAD"),
        pytest.param("PATCH", f"{NAMESPACES}//status", 400, "BadRequest", id="a patch of a subresource of no object"),
        pytest.param("POST", f"{NAMESPACES}//configmaps", 422, "Invalid", id="a create in a namespace without a name"),
        pytest.param("PUT", f"{NAMESPACES}//configmaps/a", 400, "BadRequest", id="an update in one"),
        pytest.param("OPTIONS", f"{WIDGETS}/a", 405, "MethodNotAllowed", id="an unknown verb"),
        pytest.param("OPTIONS", f"{WIDGETS}/a/status", 405, "MethodNotAllowed", id="an unknown verb of a subresource"),
        pytest.param("OPTIONS", f"{WIDGETS}/a/nix", 404, "NotFound", id="an unknown verb of an unknown subresource"),
        pytest.param("DELETE", WATCH_OF_MAPS, 405, "MethodNotAllowed", id="a deletion at the path of a watch"),
        pytest.param("POST", WATCH_OF_MAPS, 405, "MethodNotAllowed", id="a create at the path of a watch"),
        pytest.param("DELETE", f"{WATCH_OF_WIDGETS}?timeoutSeconds=1", 200, "", id="a watch by DELETE"),
        pytest.param(
            "GET", f"{WATCH_OF_WIDGETS}?resourceVersionMatch=Exact", 422, "Invalid", id="a watch with a list's options"
        ),
    ],
)
async def test_paths_and_methods(shared_api: Client, method: str, path: str, code: int, reason: str) -> None:
    answer = await shared_api.request(method, path, {} if method == "POST" else None)
    assert answer.code == code
    if reason:
        assert answer.json["reason"] == reason


@shares_application
@pytest.mark.parametrize("method", ["GET", "POST", "PATCH", "DELETE"])
async def test_proxy_is_a_verb_in_paths_that_no_resource_supports(shared_api: Client, method: str) -> None:
    body: Body = {} if method in ("POST", "PATCH") else None
    for name in ("widgets", "widgets/a", "widgets/a/status", "widgets/a/nothing"):
        path = f"/apis/{GROUP}/v1/proxy/namespaces/default/{name}"
        refused = failure(await shared_api.request(method, path, body), 405, "MethodNotAllowed")
        assert refused["message"] == f'proxy is not supported on resources of kind "widgets.{GROUP}"'
    for path in ("/api/v1/proxy/namespaces/default/configmaps/a", f"/apis/{GROUP}/v1/proxy/namespaces/default/gadgets"):
        assert (await shared_api.request(method, path, body)).code == 404
