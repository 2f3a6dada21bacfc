"""Gets that a connection answers without the handler chain have the answers of the chain, also after a change."""

from __future__ import annotations

import asyncio
import base64
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from unittest import mock

import pytest
from prometheus_client import REGISTRY
from starlette.applications import Starlette

from registry import caches
from registry.flowcontrol.fair_queue import FairQueue
from registry.http.middleware import fast_gets
from registry.http.middleware.fast_gets import GetTarget, target_of
from registry.http.responses import GZIP_THRESHOLD_BYTES
from tests.api.client import Client, eventually
from tests.api.widgets import ALL_WIDGETS, DEFINITIONS, GROUP, NAMESPACES, WIDGETS, make
from tests.application import serving, shares_application
from tests.authentication.identities import ACCOUNTS, SECRETS, account, token_of
from tests.http.streams import PATIENCE_SECONDS, Streams, connection

BINDINGS: Final = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings"
ROLES: Final = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles"


@pytest.fixture
def unexpiring_caches(tenant_api: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """What authenticates and authorizes a get does not become too old to be used again, however slow the machine."""
    now = time.monotonic()
    monkeypatch.setattr(caches, "monotonic", lambda: now)
    app = tenant_api._app
    assert isinstance(app, Starlette)
    monkeypatch.setattr(app.state.backend.authorizer, "_check_seconds", math.inf)


class Chain:
    """Passes requests on to the application, and counts them."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self.requests = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.requests += 1
        await self._app(scope, receive, send)


@dataclass(frozen=True)
class Response:
    status: bytes
    headers: dict[bytes, bytes]
    body: bytes


async def send(streams: Streams, api: Client, path: str, token: str, method: str = "GET", **headers: str) -> Response:
    """Sends a request and returns its response without the headers that differ each time."""
    _, writer = streams
    lines = [f"{method} {api.prefix}{path} HTTP/1.1", "Host: x", f"Authorization: Bearer {token}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    writer.write("\r\n".join([*lines, "", ""]).encode())
    return await read(streams, has_body=method != "HEAD")


async def read(streams: Streams, *, has_body: bool = True) -> Response:
    head = await asyncio.wait_for(streams[0].readuntil(b"\r\n\r\n"), PATIENCE_SECONDS)
    status, *lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    headers = dict(line.lower().split(b": ", 1) for line in lines)
    length = int(headers[b"content-length"]) if has_body else 0
    body = await asyncio.wait_for(streams[0].readexactly(length), PATIENCE_SECONDS)
    assert headers.pop(b"audit-id")
    if not status.endswith(b"200 OK"):
        body = b""  # which may name the request
        del headers[b"content-length"]
    return Response(status, headers, body)


async def reader_of(api: Client, *names: str) -> str:
    """Returns the token of a service account that may get widgets of these names in the namespace `default`."""
    await account(api, "reader")
    rule = {"apiGroups": [GROUP], "resources": ["widgets"], "verbs": ["get"], "resourceNames": names}
    (await api.post(ROLES, {"metadata": {"name": "reader"}, "rules": [rule]})).ok(201)
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"}
    subject = {"kind": "ServiceAccount", "name": "reader", "namespace": "default"}
    (await api.post(BINDINGS, {"metadata": {"name": "reader"}, "roleRef": role, "subjects": [subject]})).ok(201)
    return await token_of(api, "reader")


async def nothing(api: Client) -> None:
    pass


async def write_object(api: Client) -> None:
    (await api.patch(f"{WIDGETS}/a", {"spec": {"size": 7}})).ok(200)


async def delete_object(api: Client) -> None:
    (await api.delete(f"{WIDGETS}/a")).ok(200)


async def make_object_long(api: Client) -> None:
    (await api.patch(f"{WIDGETS}/a", {"spec": {"free": {"text": "é" * 40_000}}})).ok(200)


async def delete_binding(api: Client) -> None:
    (await api.delete(f"{BINDINGS}/reader")).ok(200)


async def delete_account(api: Client) -> None:
    (await api.delete(f"{ACCOUNTS}/reader")).ok(200)


async def change_default(api: Client) -> None:
    """What is stored without a size is served with one from now on."""
    change = {"op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/size/default"}
    path = f"{DEFINITIONS}/widgets.{GROUP}"
    (await api.patch(path, [{**change, "value": 3}], content_type="application/json-patch+json")).ok(200)


async def deprecate(api: Client) -> None:
    change = [{"op": "add", "path": "/spec/versions/0/deprecated", "value": True}]
    (await api.patch(f"{DEFINITIONS}/widgets.{GROUP}", change, content_type="application/json-patch+json")).ok(200)


async def delete_definition(api: Client) -> None:
    (await api.delete(WIDGETS)).ok(200)
    (await api.delete(f"{DEFINITIONS}/widgets.{GROUP}")).ok(200)


async def suspend(api: Client) -> None:
    path = f"/apis/tenancy.registry/v1/tenants/{api.prefix.removeprefix('/clusters/')}"
    (await api.of_tenant("system").patch(path, {"spec": {"suspended": True}})).ok(200)


A: Final = f"{WIDGETS}/a"


@dataclass(frozen=True)
class Case:
    """What happens between two gets of a connection, and the second get. `fast`: it does not need the chain."""

    change: Callable[[Client], Awaitable[None]] = nothing
    path: str = A
    method: str = "GET"
    headers: Mapping[str, str] | None = None
    fast: bool = False


CASES: Final = {
    "nothing": Case(fast=True),
    "another object": Case(path=f"{WIDGETS}/b", fast=True),
    "an object without permission": Case(path=f"{WIDGETS}/c"),
    "an object that does not exist": Case(path=f"{WIDGETS}/absent"),
    "another namespace without permission": Case(path=A.replace("/default/", "/kube-system/")),
    "the same object without its namespace": Case(path=f"{ALL_WIDGETS}/a"),
    "the collection": Case(path=WIDGETS),
    "a subresource": Case(path=f"{A}/status"),
    "a slash at the end": Case(path=f"{A}/"),
    "an escaped name": Case(path=f"{WIDGETS}/%61"),
    "a query": Case(path=f"{A}?pretty=1"),
    "a past state": Case(path=f"{A}?atResourceVersion=1"),
    "another kind": Case(path="/api/v1/namespaces/default/configmaps/kube-root-ca.crt"),
    "HEAD": Case(method="HEAD"),
    "YAML": Case(headers={"accept": "application/yaml"}),
    "a Table": Case(headers={"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}),
    "an interactive client": Case(headers={"user_agent": "curl/8"}),
    "impersonation": Case(headers={"impersonate_user": "ann"}),
    "a name for the request": Case(headers={"audit_id": "mine"}),
    "the last request": Case(headers={"connection": "close"}),
    "the object is written": Case(write_object, fast=True),
    "the object is deleted": Case(delete_object),
    "the object becomes long": Case(make_object_long),
    "the permission ends": Case(delete_binding),
    "the user is deleted": Case(delete_account),
    "a default changes": Case(change_default),
    "the version becomes deprecated": Case(deprecate),
    "the definition is deleted": Case(delete_definition),
    "the tenant is suspended": Case(suspend),
}


@shares_application
@pytest.mark.usefixtures("unexpiring_caches")
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_the_answer_is_that_of_a_new_connection(tenant_api: Client, case: Case) -> None:
    api = tenant_api
    await make(api, "a", "b", "c", color="red")
    token, chain, headers = await reader_of(api, "a", "b", "absent"), Chain(api._app), dict(case.headers or {})
    async with connection(chain) as kept:
        first = await send(kept, api, A, token)
        for _ in range(5):  # a controller may still write definitions of the new tenant
            before = chain.requests
            assert await send(kept, api, A, token) == first
            if chain.requests == before:
                break
        assert chain.requests == before, "the second get of a connection needs no chain"
        await case.change(api)
        again = await send(kept, api, case.path, token, case.method, **headers)
        assert (chain.requests == before) is case.fast or case.change is suspend
    async with connection(Chain(api._app)) as fresh:
        assert again == await send(fresh, api, case.path, token, case.method, **headers)


@shares_application
@pytest.mark.usefixtures("unexpiring_caches")
async def test_a_plan_is_renewed_when_what_it_depends_on_has_changed(tenant_api: Client) -> None:
    await make(tenant_api, "a")
    token, chain = await reader_of(tenant_api, "a"), Chain(tenant_api._app)
    async with connection(chain) as kept:
        await send(kept, tenant_api, A, token)
        await change_default(tenant_api)
        (await tenant_api.patch(A, {"spec": {"size": 5}})).ok(200)
        for _ in range(3):
            # The read shows that the definition has changed. The object has been written since then, so its stored
            # text has the new form, and further gets need no chain again.
            assert b'"size":5' in (await send(kept, tenant_api, A, token)).body
        assert chain.requests < 4


@shares_application
@pytest.mark.usefixtures("unexpiring_caches")
async def test_gets_that_a_plan_cannot_answer_go_through_the_handler_chain(tenant_api: Client) -> None:
    """Otherwise each would be read twice."""
    await make(tenant_api, "a")
    chain = Chain(tenant_api._app)
    token = await reader_of(tenant_api, "a", "absent")
    async with connection(chain) as kept:

        async def is_given_up() -> bool:
            await send(kept, tenant_api, A, token)
            for _ in range(fast_gets.MISSES_LIMIT):
                assert (await send(kept, tenant_api, f"{WIDGETS}/absent", token)).status == b"HTTP/1.1 404 Not Found"
            before = chain.requests
            assert (await send(kept, tenant_api, A, token)).status == b"HTTP/1.1 200 OK"
            return chain.requests == before + 1

        await eventually(is_given_up)  # at once, unless the catalog of the new tenant has just changed again


@shares_application
@pytest.mark.usefixtures("unexpiring_caches")
async def test_gets_that_wait_for_a_seat_need_no_handler_chain(tenant_api: Client) -> None:
    """While several tenants are busy, most gets wait: through the chain they took four times as long."""
    await make(tenant_api, "a")
    token, chain = await reader_of(tenant_api, "a"), Chain(tenant_api._app)
    async with connection(chain) as kept:
        expected = await send(kept, tenant_api, A, token)
        with mock.patch.object(FairQueue, "try_acquire", return_value=None):
            for _ in range(3):
                assert await send(kept, tenant_api, A, token) == expected
        assert chain.requests == 1


@shares_application
async def test_long_headers_are_not_kept(tenant_api: Client) -> None:
    """An idle connection would hold them."""
    await make(tenant_api, "a")
    token, chain = await reader_of(tenant_api, "a"), Chain(tenant_api._app)
    async with connection(chain) as kept:
        for _ in range(2):
            await send(kept, tenant_api, A, token, x_long="x" * fast_gets.HEADERS_LIMIT_BYTES)
        assert chain.requests == 2


@shares_application
async def test_pipelined_requests_are_answered_in_order(tenant_api: Client) -> None:
    await make(tenant_api, "a", "b")
    token, chain = await reader_of(tenant_api, "a", "b"), Chain(tenant_api._app)
    async with connection(chain) as kept:
        head = f"Host: x\r\nAuthorization: Bearer {token}\r\n\r\n"
        for name in ("a", "b", "absent", "b", "a"):
            kept[1].write(f"GET {tenant_api.prefix}{WIDGETS}/{name} HTTP/1.1\r\n{head}".encode())
        found = [(await read(kept)).body for _ in range(5)]
        assert [b'"name":"a"' in body for body in found] == [True, False, False, False, True]
        assert [b'"name":"b"' in body for body in found] == [False, True, False, True, False]


@shares_application
@pytest.mark.usefixtures("unexpiring_caches")
async def test_fast_gets_count_in_metrics_as_others_do(tenant_api: Client) -> None:
    await make(tenant_api, "a")
    token, chain = await reader_of(tenant_api, "a"), Chain(tenant_api._app)
    labels = {"verb": "get", "group": GROUP, "resource": "widgets", "subresource": ""}
    names = ("apiserver_request_total", "apiserver_request_duration_seconds_count")

    def counts() -> list[float]:
        by_name = (labels | {"code": "200"}, labels)
        return [REGISTRY.get_sample_value(name, found) or 0.0 for name, found in zip(names, by_name, strict=True)]

    async with connection(chain) as kept:
        before = counts()
        for _ in range(5):
            await send(kept, tenant_api, A, token)
        assert [after - b for after, b in zip(counts(), before, strict=True)] == [5, 5]
        assert chain.requests == 1
    assert REGISTRY.get_sample_value("apiserver_current_inflight_requests") == 0


@shares_application
@pytest.mark.usefixtures("unexpiring_caches")
async def test_objects_without_a_namespace(tenant_api: Client) -> None:
    """A namespace is authorized inside itself, so its name is also that of the namespace."""
    await account(tenant_api, "reader")
    chain, token = Chain(tenant_api._app), tenant_api._token
    async with connection(chain) as kept, connection(Chain(tenant_api._app)) as fresh:
        for name in ("default", "kube-system", "default"):
            found = await send(kept, tenant_api, f"{NAMESPACES}/{name}", token)
            assert found == await send(fresh, tenant_api, f"{NAMESPACES}/{name}", token)
        assert chain.requests == 1


async def test_encrypted_objects_are_opened(api_database: str, tmp_path: Path) -> None:
    """The chain does that: rows are read as they are stored."""
    keys = tmp_path / "keys"
    keys.write_text(f"first:{base64.b64encode(bytes(32)).decode()}\n")
    keys.chmod(0o600)
    async with serving(api_database, tmp_path / "data", encryption_key_file=keys) as api:
        for name in ("a", "b"):
            body = {"metadata": {"name": name}, "stringData": {"password": "open sesame"}}
            (await api.post(SECRETS, body)).ok(201)
        async with connection(Chain(api._app)) as kept:
            for name in ("a", "b", "a", "b"):
                found = (await send(kept, api, f"{SECRETS}/{name}", api._token)).body
                assert base64.b64encode(b"open sesame") in found
                assert b'"sealed"' not in found


@pytest.mark.parametrize(
    "path, expected",
    [
        ("/apis/g/v1/namespaces/default/ws/a", ("/apis/g/v1", "ws", "default", "a")),
        ("/clusters/t/apis/g/v1/namespaces/x/ws/a.b", ("/clusters/t/apis/g/v1", "ws", "x", "a.b")),
        ("/api/v1/namespaces/default", ("/api/v1", "namespaces", "", "default")),
        ("/api/v1/namespaces/default/configmaps", ("/api/v1/namespaces", "default", "", "configmaps")),
        ("/apis/g/v1/ws/a", ("/apis/g/v1", "ws", "", "a")),
        ("/apis/g/v1/namespaces//ws/a", None),
        ("/apis/g/v1/ws/", None),
        ("/apis/g/v1/ws/a%62", None),
        ("/apis/g/v1/ws/A", None),
        ("/api", None),
        ("", None),
    ],
)
def test_the_parts_of_a_path(path: str, expected: tuple[str, str, str, str] | None) -> None:
    found = target_of(path.encode())
    if expected is None:
        assert found is None
    else:
        prefix, plural, namespace, name = (text.encode() for text in expected)
        assert found == GetTarget((prefix, plural), namespace, name)


def test_objects_of_fast_gets_are_below_the_compression_threshold() -> None:
    assert 4 * fast_gets.LONGEST_CHARACTERS + 1024 < GZIP_THRESHOLD_BYTES
