"""Several versions of one resource by the example's webhook, over real TLS: every verb, batches, and failures."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import threading
from collections.abc import Awaitable, Callable, Hashable, MutableMapping
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from registry.api import converted_texts
from registry.api.singleflight import singleflight
from registry.webhooks.connection import Resolver
from tests.api.client import APPLY, Client, eventually
from tests.api.widgets import DEFINITIONS, define
from tests.api.widgets import definition as definition_of
from tests.conversion.webhook import Webhook
from tests.tenancy.sharing import EXPORTS, bind, export
from tests.tenancy.tenants import make

pytestmark = pytest.mark.slow  # a server, TLS and a database for each

GROUP = "net.example.com"
V1 = f"/apis/{GROUP}/v1/namespaces/default/endpoints"
BETA = f"/apis/{GROUP}/v1beta1/namespaces/default/endpoints"


def endpoint(name: str, version: str = "v1beta1", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/{version}", "kind": "Endpoint", "metadata": {"name": name}, "spec": spec}


@pytest.fixture
async def defined(api: Client, definition: dict[str, Any]) -> Client:
    await define(api, definition)
    return api


async def test_every_verb_at_both_versions(defined: Client) -> None:
    made = (await defined.post(BETA, endpoint("a", hostPort="h:1"))).ok(201)
    assert made["spec"] == {"hostPort": "h:1"}
    assert (await defined.get(f"{V1}/a")).ok()["spec"] == {"host": "h", "port": 1}
    assert (await defined.patch(f"{V1}/a", {"spec": {"port": 2}})).ok()["spec"] == {"host": "h", "port": 2}
    assert (await defined.get(f"{BETA}/a")).ok()["spec"] == {"hostPort": "h:2"}
    current = (await defined.get(f"{BETA}/a")).ok()
    replaced = (await defined.put(f"{BETA}/a", {**current, "spec": {"hostPort": "k:3"}})).ok()
    assert replaced["spec"] == {"hostPort": "k:3"}
    assert replaced["metadata"]["generation"] == 3
    status = {**replaced, "status": {"ready": True}}
    assert (await defined.put(f"{BETA}/a/status", status)).ok()["status"] == {"ready": True}
    assert (await defined.get(f"{V1}/a")).ok()["spec"] == {"host": "k", "port": 3}
    (await defined.delete(f"{BETA}/a")).ok()
    assert (await defined.get(f"{V1}/a")).code == 404


async def test_objects_of_bound_definitions_are_converted(api: Client, definition: dict[str, Any]) -> None:
    """The provider's webhook is asked, in the tenant and in a list over all who have bound."""
    system = api.of_tenant("system")
    provider = await make(system, "provider", domain="shop")
    await define(provider, definition)
    shared = export(all=True)
    shared["spec"]["definitions"] = [definition["metadata"]["name"]]
    (await provider.post(EXPORTS, shared)).ok(201)
    consumer = await make(system, "consumer", domain="shop")
    await bind(consumer)
    (await consumer.post(BETA, endpoint("a", hostPort="h:1"))).ok(201)
    assert (await consumer.get(f"{V1}/a")).ok()["spec"] == {"host": "h", "port": 1}
    (await consumer.patch(f"{V1}/a", {"spec": {"port": 2}})).ok()
    for client, path in ((consumer, BETA), (api.of_tenant("*.shop"), f"/apis/{GROUP}/v1beta1/endpoints")):
        assert [i["spec"] for i in (await client.get(path)).ok()["items"]] == [{"hostPort": "h:2"}]
        async with client.watch(f"{path}?watch=1") as watch:
            assert (await watch.event())["object"]["spec"] == {"hostPort": "h:2"}


async def test_an_update_without_changes_is_not_written(defined: Client) -> None:
    made = (await defined.post(BETA, endpoint("a", hostPort="h:1"))).ok(201)
    again = (await defined.put(f"{BETA}/a", made)).ok()
    third = (await defined.put(f"{BETA}/a", again)).ok()
    assert third["metadata"]["resourceVersion"] == again["metadata"]["resourceVersion"]


async def test_field_owners_are_compared_at_their_own_version(defined: Client) -> None:
    path = f"{V1}/a?fieldManager=one"
    (await defined.patch(path, json.dumps(endpoint("a", "v1", host="h", port=1)), APPLY)).ok(201)
    refused = await defined.patch(f"{BETA}/a?fieldManager=two", json.dumps(endpoint("a", hostPort="h:2")), APPLY)
    assert refused.code == 409
    assert [c["field"] for c in refused.json["details"]["causes"]] == [".spec.port"]


async def test_a_watch_converts_objects_written_at_another_version(defined: Client) -> None:
    async with defined.watch(f"{BETA}?watch=1") as watch:
        (await defined.post(V1, endpoint("a", "v1", host="h", port=1))).ok(201)
        (await defined.patch(f"{V1}/a", {"spec": {"port": 2}})).ok()
        (await defined.delete(f"{V1}/a")).ok()
        events = await watch.events(3)
    assert [e["type"] for e in events] == ["ADDED", "MODIFIED", "DELETED"]
    assert [e["object"]["spec"] for e in events] == [{"hostPort": "h:1"}, {"hostPort": "h:2"}, {"hostPort": "h:2"}]


async def test_an_event_is_converted_once_for_all_watchers(defined: Client, webhook: Webhook) -> None:
    async with contextlib.AsyncExitStack() as stack:
        watches = [await stack.enter_async_context(defined.watch(f"{BETA}?watch=1")) for _ in range(8)]
        (await defined.post(V1, endpoint("a", "v1", host="h", port=1))).ok(201)
        for watch in watches:
            assert [e["object"]["spec"] for e in await watch.events(1)] == [{"hostPort": "h:1"}]
        assert webhook.calls == 1
        webhook.application = refusing(500, b"it broke")
        (await defined.post(V1, endpoint("b", "v1", host="h", port=2))).ok(201)
        for watch in watches:
            [event] = await watch.events(1)
            assert (event["type"], event["object"]["code"]) == ("ERROR", 500)


async def _make(client: Client, count: int) -> None:
    for i in range(count):
        (await client.post(V1, endpoint(f"e{i:02}", "v1", host="h", port=i + 1))).ok(201)


async def test_a_list_takes_one_call_and_the_next_uses_the_cache(defined: Client, webhook: Webhook) -> None:
    await _make(defined, 20)
    assert webhook.calls == 0
    first = (await defined.get(BETA)).ok()
    assert [i["spec"]["hostPort"] for i in first["items"]] == [f"h:{i + 1}" for i in range(20)]
    assert webhook.calls == 1
    assert (await defined.get(BETA)).ok() == first
    assert webhook.calls == 1
    (await defined.patch(f"{V1}/e03", {"spec": {"host": "k"}})).ok()
    assert (await defined.get(BETA)).ok()["items"][3]["spec"] == {"hostPort": "k:4"}
    assert webhook.calls == 2


async def test_lists_at_the_same_time_are_one_call(
    defined: Client, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _make(defined, 20)
    inner, go = webhook.application, threading.Event()
    waiting: list[Hashable] = []

    async def held(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.to_thread(go.wait)
        await inner(scope, receive, send)

    async def count_waiting(
        under_way: MutableMapping[Any, Any], key: Hashable, work: Callable[[], Awaitable[None]]
    ) -> None:
        waiting.append(key)
        await singleflight(under_way, key, work)

    async def all_wait() -> bool:
        return len(waiting) == 10

    webhook.application = held
    monkeypatch.setattr(converted_texts, "singleflight", count_waiting)
    lists = [asyncio.create_task(defined.get(BETA)) for _ in range(10)]
    try:
        await eventually(all_wait)  # A list that came later would be answered by what has been kept.
    finally:
        go.set()
    answers = [(await one).ok() for one in lists]
    assert all(answer == answers[0] for answer in answers)
    assert webhook.calls == 1


async def test_a_webhook_for_single_objects_gets_one_object_per_call(defined: Client, webhook: Webhook) -> None:
    await _make(defined, 5)
    inner, sizes = webhook.application, []

    async def only_the_first(scope: Scope, receive: Receive, send: Send) -> None:
        message = await receive()
        review = json.loads(message["body"])
        sizes.append(len(review["request"]["objects"]))
        del review["request"]["objects"][1:]
        body = json.dumps(review).encode()
        scope = {**scope, "headers": [(k, v) for k, v in scope["headers"] if k != b"content-length"]}

        async def received() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        await inner(scope, received, send)

    webhook.application = only_the_first
    assert len((await defined.get(BETA)).ok()["items"]) == 5
    assert sizes == [5, 1, 1, 1, 1, 1]
    (await defined.patch(f"{V1}/e00", {"spec": {"host": "k"}})).ok()
    (await defined.patch(f"{V1}/e01", {"spec": {"host": "k"}})).ok()
    (await defined.get(BETA)).ok()
    assert sizes[6:] == [1, 1]


async def test_an_object_that_cannot_be_converted_is_not_stored(defined: Client) -> None:
    refused = await defined.post(BETA, endpoint("a", hostPort="nothing"))
    assert refused.code == 500
    assert refused.json["message"] == (
        f"conversion webhook for {GROUP}/v1beta1, Kind=Endpoint failed: a: hostPort is not HOST:PORT"
    )
    assert (await defined.get(f"{V1}/a")).code == 404


async def test_a_list_fails_with_the_error_of_its_first_failing_object(defined: Client, webhook: Webhook) -> None:
    await _make(defined, 3)

    async def broken(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 500, "headers": [(b"content-type", b"text/plain")]})
        await send({"type": "http.response.body", "body": b"it broke"})

    webhook.application = broken
    failed = await defined.get(BETA)
    assert failed.code == 500
    assert failed.json["message"].endswith(
        'failed: an error on the server ("it broke") has prevented the request from succeeding'
    )
    assert len((await defined.get(V1)).ok()["items"]) == 3


def refusing(status: int, body: bytes = b"", **headers: str) -> ASGIApp:
    """An application that answers so whatever it is asked."""
    named = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]

    async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": status, "headers": named})
        await send({"type": "http.response.body", "body": body})

    return refuse


STATUS = json.dumps({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "not today"}).encode()
REFUSALS: dict[str, tuple[ASGIApp, str]] = {
    "a text": (
        refusing(502, b"it broke", content_type="text/html"),
        'an error on the server ("it broke") has prevented the request from succeeding',
    ),
    "no type": (
        refusing(500, b"it broke"),
        'an error on the server ("it broke") has prevented the request from succeeding',
    ),
    "JSON": (
        refusing(500, b'{"detail": "it broke"}', content_type="application/json"),
        'an error on the server ("unknown") has prevented the request from succeeding',
    ),
    "a Status": (refusing(500, STATUS, content_type="application/json"), "not today"),
    "a Status of another code": (refusing(404, STATUS, content_type="application/json"), "not today"),
    "of another type": (refusing(415, b"JSON only", content_type="text/plain"), "JSON only"),
    "not acceptable": (refusing(406), "the server was unable to respond with a content type that the client supports"),
    "later than it can be waited for": (
        refusing(503, retry_after="3600"),
        "the server is currently unable to handle the request",
    ),
}


@pytest.mark.parametrize("application, why", REFUSALS.values(), ids=REFUSALS.keys())
async def test_the_text_of_a_refusal(defined: Client, webhook: Webhook, application: ASGIApp, why: str) -> None:
    webhook.application = application
    refused = await defined.post(BETA, endpoint("a", hostPort="h:1"))
    assert refused.code == 500
    assert refused.json["message"] == f"conversion webhook for {GROUP}/v1beta1, Kind=Endpoint failed: {why}"
    assert webhook.calls == 1


async def test_a_busy_webhook_is_called_again(defined: Client, webhook: Webhook) -> None:
    inner, busy = webhook.application, refusing(429, retry_after="0")

    async def twice_busy(scope: Scope, receive: Receive, send: Send) -> None:
        await (busy if webhook.calls <= 2 else inner)(scope, receive, send)

    webhook.application = twice_busy
    (await defined.post(BETA, endpoint("a", hostPort="h:1"))).ok(201)
    assert webhook.calls == 4  # three for what is stored, one for what is answered
    webhook.application = busy
    refused = await defined.get(f"{BETA}/a")
    assert refused.json["message"].endswith("has asked us to try again later")
    assert webhook.calls == 4 + 11


async def test_redirects_are_not_followed(defined: Client, webhook: Webhook) -> None:
    await _make(defined, 1)

    async def elsewhere(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 307, "headers": [(b"location", b"/other")]})
        await send({"type": "http.response.body", "body": b""})

    webhook.application = elsewhere
    calls = webhook.calls
    assert "status code 307" in (await defined.get(f"{BETA}/e00")).json["message"]
    assert webhook.calls == calls + 1


async def test_private_addresses_are_refused_unless_allowed(
    guarded: Client, definition: dict[str, Any], webhook: Webhook
) -> None:
    await define(guarded, definition)
    refused = await guarded.post(BETA, endpoint("a", hostPort="h:1"))
    assert refused.code == 500
    assert "the address is not one that webhooks may be called at" in refused.json["message"]
    assert webhook.calls == 0


async def test_another_ca_is_not_trusted(api: Client, definition: dict[str, Any]) -> None:
    del definition["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"]
    await define(api, definition)
    refused = await api.post(BETA, endpoint("a", hostPort="h:1"))
    assert refused.json["message"].endswith("x509: certificate signed by unknown authority")


async def test_a_bundle_may_be_the_webhooks_own_certificate(
    api: Client, definition: dict[str, Any], webhook: Webhook, tmp_path: Path
) -> None:
    own = (tmp_path / "webhook/tls/server.crt").read_bytes()
    definition["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"] = base64.b64encode(own).decode()
    await define(api, definition)
    (await api.post(BETA, endpoint("a", hostPort="h:1"))).ok(201)
    assert webhook.calls > 0


async def test_each_address_of_a_host_is_tried(
    api: Client, definition: dict[str, Any], webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the first there is nobody; the second may not be called; the webhook is at the third."""

    async def found(self: Resolver, tenant: int, host: str, port: int) -> list[str]:
        assert host == "localhost"
        return ["127.0.0.2", "10.0.0.1", "127.0.0.1"]

    monkeypatch.setattr(Resolver, "lookup", found)
    config = definition["spec"]["conversion"]["webhook"]["clientConfig"]
    config["url"] = webhook.url.replace("127.0.0.1", "localhost")
    await define(api, definition)
    (await api.post(BETA, endpoint("a", hostPort="h:1"))).ok(201)
    assert webhook.calls > 0


async def test_an_unreachable_webhook_is_called_once_per_list(defined: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    await _make(defined, 5)
    tries = []

    async def nowhere(self: Resolver, tenant: int, host: str, port: int) -> list[str]:
        tries.append(host)
        return ["127.0.0.2"]

    monkeypatch.setattr(Resolver, "lookup", nowhere)
    failed = await defined.get(BETA)
    assert failed.code == 500
    assert failed.json["message"].endswith("connect: connection refused")
    assert tries == ["127.0.0.1"]


async def test_an_object_of_a_removed_version_does_not_fail_lists(api: Client) -> None:
    made = definition_of("gadgets", "Gadget", group=GROUP)
    [one] = made["spec"]["versions"]
    made["spec"]["versions"] = [{**one, "name": "v1beta1"}, {**one, "storage": False}]
    await define(api, made)
    path, crd = f"/apis/{GROUP}/v1/namespaces/default/gadgets", f"{DEFINITIONS}/gadgets.{GROUP}"
    gadget = {"apiVersion": f"{GROUP}/v1", "kind": "Gadget", "metadata": {"name": "a"}, "spec": {"size": 1}}
    (await api.post(path, gadget)).ok(201)
    (await api.patch(crd, {"spec": {"versions": [{**one, "name": "v1beta1", "storage": False}, one]}})).ok()
    (await api.post(path, {**gadget, "metadata": {"name": "b"}})).ok(201)
    (await api.patch(f"{crd}/status", {"status": {"storedVersions": ["v1"]}})).ok()
    (await api.patch(crd, {"spec": {"versions": [one]}})).ok()
    refused = await api.get(f"{path}/a")
    assert refused.code == 500
    assert "add it to spec.versions again (served: false is enough)" in refused.json["message"]
    listed = await api.get(path)
    assert [i["metadata"]["name"] for i in listed.ok()["items"]] == ["b"]
    assert any("default/a" in warning for warning in listed.warnings)
    (
        await api.patch(
            crd, {"spec": {"versions": [one, {**one, "name": "v1beta1", "served": False, "storage": False}]}}
        )
    ).ok()
    assert (await api.get(f"{path}/a")).ok()["spec"] == {"size": 1, "color": "grey"}


async def test_an_apply_where_the_webhook_returns_unknown_fields(defined: Client, webhook: Webhook) -> None:
    """They are removed before the applied fields are compared, as from every answer."""
    (await defined.post(BETA, endpoint("a", hostPort="h:1"))).ok(201)
    applied = endpoint("a", hostPort="h:2")
    (await defined.patch(f"{BETA}/a?fieldManager=m&force=true", json.dumps(applied), APPLY)).ok(200)
    webhook.application = Starlette(routes=[Route("/convert", with_unknown_fields, methods=["POST"])])
    applied["metadata"]["labels"] = {"x": "y"}
    again = await defined.patch(f"{BETA}/a?fieldManager=m&force=true", json.dumps(applied), APPLY)
    assert again.ok(200)["metadata"]["labels"] == {"x": "y"}
    assert again.json["spec"] == {"hostPort": "h:2"}


@pytest.mark.parametrize("api_version", ["nonsense", f"{GROUP}/v3", "other.example.com/v1"])
async def test_only_objects_of_versions_of_the_definition_are_converted(
    defined: Client, webhook: Webhook, api_version: str
) -> None:
    """A patch may set any apiVersion: it is refused by validation, and the webhook does not see it."""
    inner = webhook.application
    seen: set[str] = set()

    async def recorded(scope: Scope, receive: Receive, send: Send) -> None:
        body = await receive()
        seen.update(obj["apiVersion"] for obj in json.loads(body["body"])["request"]["objects"])

        async def receive_again() -> MutableMapping[str, Any]:
            return body

        await inner(scope, receive_again, send)

    (await defined.post(V1, endpoint("a", "v1", host="h", port=1))).ok(201)
    webhook.application = recorded
    change = {"apiVersion": api_version, "spec": {"hostPort": "h:2"}}
    refused = await defined.patch(f"{BETA}/a", change)
    assert refused.code == 422
    assert refused.json["details"]["causes"][0]["field"] == "apiVersion"
    assert seen <= {f"{GROUP}/v1", f"{GROUP}/v1beta1"}


async def with_unknown_fields(request: Request) -> JSONResponse:
    review = await request.json()
    version = review["request"]["desiredAPIVersion"]
    spec = {"hostPort": "h:2", "unknown": 1} if version.endswith("beta1") else {"host": "h", "port": 2, "unknown": 1}
    objects = [{**obj, "apiVersion": version, "spec": spec} for obj in review["request"]["objects"]]
    response = {"uid": review["request"]["uid"], "result": {"status": "Success"}, "convertedObjects": objects}
    return JSONResponse({"apiVersion": review["apiVersion"], "kind": "ConversionReview", "response": response})
