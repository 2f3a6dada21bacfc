"""Of a header that may occur once, the first one counts, as for kube-apiserver: a proxy in front may look at it."""

from __future__ import annotations

from typing import Any

import pytest

from registry.http.middleware.request_info import RequestInfoMiddleware
from registry.http.request_state import STATE
from tests.api.client import Client
from tests.api.errors import failure
from tests.application import shares_application

pytestmark = shares_application

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"


@pytest.mark.parametrize(
    "headers, found",
    [
        pytest.param([(b"accept", b"a"), (b"accept", b"b")], {b"accept": b"a"}, id="the first"),
        pytest.param(
            [(b"connection", b"keep-alive"), (b"upgrade", b"a"), (b"connection", b"Upgrade"), (b"upgrade", b"b")],
            {b"connection": b"keep-alive, Upgrade", b"upgrade": b"a"},
            id="a list",
        ),
        pytest.param(
            [(b"sec-websocket-protocol", b"a"), (b"sec-websocket-protocol", b"b, c")],
            {b"sec-websocket-protocol": b"a, b, c"},
            id="subprotocols",
        ),
        pytest.param([], {}, id="none"),
    ],
)
async def test_headers_by_name(headers: list[tuple[bytes, bytes]], found: dict[bytes, bytes]) -> None:
    states = []

    async def endpoint(scope: Any, receive: Any, send: Any) -> None:
        states.append(scope[STATE])

    scope = {"type": "http", "method": "GET", "path": "/api", "query_string": b"", "headers": headers}
    unused: Any = None
    await RequestInfoMiddleware(endpoint)(scope, unused, unused)
    assert states[0].headers == found


@pytest.mark.parametrize("other", ["Bearer wrong", "Basic eDp5"])
async def test_the_first_credential_counts(api: Client, other: str) -> None:
    (await api.post(ACCOUNTS, {"metadata": {"name": "a"}})).ok(201)
    token = (await api.post(f"{ACCOUNTS}/a/token", {"spec": {}})).ok(201)["status"]["token"]
    anyone = api.with_token("")
    # Both names are sent in lower case.
    known = {"authorization": f"Bearer {token}", "Authorization": other}
    status = failure(await anyone.get("/api/v1/nodes", headers=known), 403, "Forbidden")
    assert 'User "system:serviceaccount:default:a"' in status["message"]
    unknown = {"authorization": other, "Authorization": f"Bearer {token}"}
    assert (await anyone.get("/api/v1/nodes", headers=unknown)).code == (403 if other.startswith("Basic") else 401)


@pytest.mark.parametrize("first, code", [("application/yaml", 200), ("application/json", 200), ("a/b", 406)])
async def test_the_first_accept_counts(api: Client, first: str, code: int) -> None:
    other = "application/yaml" if first == "application/json" else "application/json"
    answer = await api.get("/api/v1/namespaces/default", headers={"accept": first, "Accept": other})
    assert answer.code == code
    assert answer.header("content-type") == (first if code == 200 else "application/json")
