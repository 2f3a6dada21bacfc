"""Paths beside those that clients use: slashes too many, segments below documents, names that no object can have.

Compared with kube-apiserver 1.36.2. Its own documents are exact paths; version and OpenID metadata are web services,
which ignore trailing slashes.
"""

from __future__ import annotations

import pytest

from tests.api.client import APPLY, JSON, JSON_PATCH, MERGE, Client
from tests.api.errors import failure
from tests.api.widgets import GROUP, NAMESPACES, WIDGETS, widget
from tests.application import shares_application

MAPS = f"{NAMESPACES}/default/configmaps"
CUSTOM = WIDGETS.replace("/default/", "/{}/")
TEXT = "text/plain; charset=utf-8"
XML = "application/xml"


@shares_application
@pytest.mark.parametrize("accept", ["", XML])
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "OPTIONS"])
@pytest.mark.parametrize(
    "path",
    [
        "//",
        "//api",
        "//api/v1",
        "//apis",
        f"/{MAPS}",
        "//livez",
        "/apis//",
        "/apis//v1",
        f"/apis//{GROUP}/v1/widgets",
        "/livez/",
        "/readyz//",
        "/healthz/ping/",
        "/metrics/",
        "/livez/nope",
        "/apis/nope.io",
        "/apis/nope.io/v1",
    ],
)
async def test_what_has_no_route_is_a_text(shared_api: Client, method: str, path: str, accept: str) -> None:
    answer = await shared_api.request(method, path, accept=accept)
    assert (answer.code, answer.headers["content-type"]) == (404, [TEXT])
    if method != "HEAD":
        assert answer.body == b"404 page not found\n"


@shares_application
@pytest.mark.parametrize("accept", ["", XML])
@pytest.mark.parametrize(
    "path",
    [
        "/version/x",
        "/openid/v1/jwks/x",
        "/.well-known/openid-configuration/x",
        "/api/v2",
        "/api/v2/",
        "/apis/apiextensions.k8s.io/v9",
    ],
)
async def test_what_a_service_lacks_is_a_status(shared_api: Client, path: str, accept: str) -> None:
    answer = await shared_api.request("GET", path, accept=accept)
    assert answer.code == 404
    assert answer.json["message"] == "the server could not find the requested resource"


@shares_application
@pytest.mark.parametrize("accept", [JSON, XML])
@pytest.mark.parametrize("name", ["/", "api/v1/", f"apis/{GROUP}/v1/", "/api/v1", "nope"])
async def test_openapi_of_nothing_is_empty(shared_api: Client, name: str, accept: str) -> None:
    answer = await shared_api.request("GET", f"/openapi/v3/{name}", accept=accept)
    assert (answer.code, answer.body) == (404, b"")


@shares_application
@pytest.mark.parametrize(
    "path, media_type",
    [
        ("/version", JSON),
        ("/version/", JSON),
        ("/.well-known/openid-configuration", JSON),
        ("/openid/v1/jwks", "application/jwk-set+json"),
        ("/openid/v1/jwks//", "application/jwk-set+json"),
    ],
)
async def test_documents_of_one_form(shared_api: Client, path: str, media_type: str) -> None:
    for accept in ("", "*/*", media_type, f"text/html, {media_type};q=0.1"):
        answer = await shared_api.request("GET", path, accept=accept)
        assert (answer.code, answer.headers["content-type"]) == (200, [media_type])
    for accept in ("application/yaml", "text/html", "application/*"):
        answer = await shared_api.request("GET", path, accept=accept)
        assert answer.code == 406
    assert answer.json["message"] == f"406: Not Acceptable\n\nAvailable representations: {media_type}"
    assert answer.json["details"] == {}


@shares_application
async def test_the_index_has_two_paths(shared_api: Client) -> None:
    index = await shared_api.request("GET", "/")
    assert "/apis/apiextensions.k8s.io/v1" in index.json["paths"]
    assert (await shared_api.request("GET", "/index.html")).json == index.json


@shares_application
@pytest.mark.parametrize("collection, kind", [(MAPS, ("v1", "ConfigMap")), (WIDGETS, (f"{GROUP}/v1", "Widget"))])
@pytest.mark.parametrize(
    "name, quoted, problem",
    [(".", ".", "may not be '.'"), ("..", "..", "may not be '..'"), ("a%b", "a%25b", "may not contain '%'")],
)
async def test_names_that_no_object_can_have(
    shared_api: Client, collection: str, kind: tuple[str, str], name: str, quoted: str, problem: str
) -> None:
    api, path = shared_api, f"{collection}/{quoted}"
    body = {"apiVersion": kind[0], "kind": kind[1], "metadata": {"name": name}}
    answers = [
        await api.request("GET", path),
        await api.request("DELETE", path),
        await api.request("PUT", path, body),
        await api.request("PATCH", path, {}, content_type=MERGE),
        await api.request("PATCH", path, [], content_type=JSON_PATCH),
        await api.request("PATCH", f"{path}?fieldManager=m", body, content_type=APPLY),
    ]
    for answer in answers:
        assert answer.code == 400
        assert answer.json["message"] == f'Name parameter invalid: "{name}": {problem}'
    # What is wrong with the request otherwise comes first.
    assert (await api.request("DELETE", f"{path}?dryRun=x")).code == 422
    assert (await api.request("PATCH", path, {}, content_type="text/x")).code == 415
    assert (await api.request("GET", f"{path}/none")).code == 404
    assert (await api.request("POST", collection, body)).code == 422


@shares_application
@pytest.mark.parametrize("name", ["", "/kept"])
async def test_an_empty_namespace_is_not_all_namespaces(api: Client, name: str) -> None:
    """Where a script's variable is empty, a DELETE of `namespaces/$NAMESPACE/configmaps` must not delete all of them."""
    for path, obj in (("/api/v1/namespaces/{}/configmaps", {"metadata": {"name": "kept"}}), (CUSTOM, widget("kept"))):
        (await api.post(path.format("default"), obj)).ok(201)
        for method in ("DELETE", "GET", "PUT", "PATCH")[: 4 if name else 1]:
            body = obj if method in ("PUT", "PATCH") else None
            answer = await api.request(method, path.format("") + name, body, content_type="application/json")
            if path == CUSTOM:
                assert (answer.code, answer.text) == (404, "404 page not found\n"), method
            elif method != "PATCH":
                assert failure(answer, 400, "BadRequest")["message"] == "Namespace parameter required.", method
        assert (await api.get(path.format("default") + "/kept")).code == 200
        assert "kept" in [item["metadata"]["name"] for item in (await api.get(path.format(""))).ok()["items"]]
