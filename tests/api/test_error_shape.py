"""Every failure at every kind of endpoint is a well-formed Status."""

from __future__ import annotations

from typing import Any

from tests.api.client import MERGE, Client
from tests.api.errors import failure
from tests.api.widgets import DEFINITIONS, GROUP, NAMESPACES, WIDGETS, make
from tests.application import shares_application

pytestmark = shares_application

A = f"{WIDGETS}/a"

FAILING: dict[str, tuple[str, str, Any, str, int, str]] = {
    "get of nothing": ("GET", f"{WIDGETS}/none", None, "", 404, "NotFound"),
    "status of nothing": ("GET", f"{WIDGETS}/none/status", None, "", 404, "NotFound"),
    "scale of nothing": ("GET", f"{WIDGETS}/none/scale", None, "", 404, "NotFound"),
    "list by a bad selector": ("GET", f"{WIDGETS}?labelSelector=!!", None, "", 400, "BadRequest"),
    "watch by a bad selector": ("GET", f"{WIDGETS}?watch=1&labelSelector=!!", None, "", 400, "BadRequest"),
    "old watch of a bad selector": (
        "GET",
        f"/apis/{GROUP}/v1/watch/namespaces/default/widgets?fieldSelector=x",
        None,
        "",
        400,
        "BadRequest",
    ),
    "create of nothing": ("POST", WIDGETS, b"", "application/json", 400, "BadRequest"),
    "create by a bad option": ("POST", f"{WIDGETS}?dryRun=x", {}, "application/json", 422, "Invalid"),
    "create with a name": ("POST", A, {}, "application/json", 400, "BadRequest"),
    "update of a collection": ("PUT", WIDGETS, {}, "application/json", 400, "BadRequest"),
    "update of nothing": ("PUT", A, b"", "application/json", 400, "BadRequest"),
    "patch by a bad type": ("PATCH", A, {}, "text/x", 415, "UnsupportedMediaType"),
    "delete by bad options": ("DELETE", A, b"[]", "application/json", 400, "BadRequest"),
    "deletecollection by a bad selector": ("DELETE", f"{WIDGETS}?fieldSelector=x", None, "", 400, "BadRequest"),
    "a method that there is not": ("BREW", WIDGETS, None, "", 405, "MethodNotAllowed"),
    "a namespace that is not there": ("GET", f"{NAMESPACES}/none", None, "", 404, "NotFound"),
    "a namespace of a bad name": (
        "POST",
        NAMESPACES,
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "A_"}},
        "application/json",
        422,
        "Invalid",
    ),
    "a definition of nothing": ("POST", DEFINITIONS, {}, "application/json", 422, "Invalid"),
    "a definition that is not there": ("PATCH", f"{DEFINITIONS}/x.y", {}, MERGE, 404, "NotFound"),
    "a built-in resource that there is not": ("GET", "/api/v1/none", None, "", 404, "NotFound"),
    "a built-in group's that there is not": ("GET", "/apis/apiextensions.k8s.io/v1/none", None, "", 404, "NotFound"),
    "a version that there is not": ("GET", "/apis/apiextensions.k8s.io/v9", None, "", 404, "NotFound"),
    "a method of a document": ("POST", "/version", {}, "application/json", 405, "MethodNotAllowed"),
    "a form that discovery has not": ("GET", "/apis", None, "", 406, "NotAcceptable"),
}


async def test_every_error_is_a_status(api: Client) -> None:
    await make(api, "a")
    wrong = {}
    for name, (method, path, body, content_type, code, reason) in FAILING.items():
        for client in (api, api.of_tenant("default")):
            accept = "application/xml" if code == 406 else ""
            answer = await client.request(method, path, body, content_type=content_type, accept=accept)
            try:
                failure(answer, code, reason)
            except (AssertionError, ValueError):
                wrong[name] = (answer.code, answer.text)
    assert not wrong


NOWHERE = [
    "/none",
    "/apis/none.example.com",
    f"/apis/{GROUP}/v9",
    f"/apis/{GROUP}/v1/none",
    "/healthz/none",
    f"/apis/{GROUP}/v9/namespaces/default/widgets",
    "/apis/none.example.com/v1/x",
    "/clusters",
]


async def test_unknown_paths(api: Client) -> None:
    for path in NOWHERE:
        answer = await api.get(path)
        assert (answer.code, answer.text) == (404, "404 page not found\n"), path


ODD = [
    f"{WIDGETS}/a%2Fb",
    f"{WIDGETS}/%00",
    f"{WIDGETS}/{'x' * 5000}",
    f"{WIDGETS}/é",
    f"{WIDGETS}/..",
    f"{WIDGETS}/a%25",
    "//apis//x",
    "/clusters/%00/apis",
    f"/clusters/{'t' * 3000}/api/v1/namespaces",
    f"/apis/{GROUP}/v1/namespaces/%00/widgets",
    "/clusters/../apis",
    "/api/v1/namespaces/default/none/a/b/c/d/e",
]


async def test_errors_of_odd_paths_say_what_is_wrong(api: Client) -> None:
    """Never a 500, nor a hit of another object."""
    await make(api, "a")
    found = {}
    for path in ODD:
        for method in ("GET", "DELETE", "PATCH"):
            answer = await api.request(method, path, {} if method == "PATCH" else None, content_type=MERGE)
            if answer.code not in (200, 400, 404, 405, 415, 422):
                found[f"{method} {path[:80]}"] = (answer.code, answer.text)
    assert not found
    (await api.get(f"{WIDGETS}/a?limit=%zz&;=")).ok()


async def test_a_name_is_quoted_as_go_quotes_it(api: Client) -> None:
    body = {"metadata": {"name": 'a\u0007"b'}}
    status = failure(await api.post("/api/v1/namespaces/default/configmaps", body), 422, "Invalid")
    assert status["message"].startswith('ConfigMap "a\\a\\"b" is invalid: ')
    assert status["details"]["name"] == 'a\u0007"b'


async def test_fields_of_a_status_are_not_reported_as_unknown(api: Client) -> None:
    await make(api, "a")
    body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    answer = await api.post(WIDGETS, body)
    failure(answer, 400, "BadRequest")
    assert answer.warnings == []
