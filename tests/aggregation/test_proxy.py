"""Requests that are passed on to another server: what it is sent, what comes back, and how it may fail."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from tests.aggregation.backend import BASE, METRICS, NAME, Answer, Proxied, Request, behind, hang, wait_for_condition
from tests.aggregation.objects import PATH
from tests.api.client import eventually
from tests.api.errors import failure
from tests.application import shares_application

pytestmark = shares_application


async def test_forwarded_requests(proxied: Proxied) -> None:
    async with behind(proxied) as (client, _):
        answer = await client.request(
            "POST",
            f"{METRICS}?b=2&a=x%20y",
            b'{"kind":"Metric"}',
            headers={
                "x-remote-user": "root", "x_remote_group": "system:masters",
                "x-remote-extra-scopes": "all", "connection": "x-hop", "x-hop": "1", "x-kept": "1",
                "cookie": "session=1",
                "sec-websocket-protocol": "v4.channel.k8s.io, base64url.bearer.authorization.k8s.io.c2VjcmV0",
            },
        )  # fmt: skip
        seen = answer.ok(200)
    assert (seen["method"], seen["target"], seen["body"]) == ("POST", f"{METRICS}?a=x+y&b=2", '{"kind":"Metric"}')
    headers: dict[str, list[str]] = {}
    for name, value in seen["headers"]:
        headers.setdefault(name, []).append(value)
    assert headers["x-remote-user"] == ["admin"]
    assert headers["x-remote-group"] == ["system:masters", "system:authenticated"]
    assert headers["host"] == ["metrics.kube-system.svc"]
    assert headers["x-kept"] == ["1"]
    assert headers["sec-websocket-protocol"] == ["v4.channel.k8s.io"]
    assert headers["audit-id"] == [answer.header("audit-id")]
    refused = {"authorization", "cookie", "x_remote_group", "x-remote-extra-scopes", "x-hop", "connection"}
    assert refused.isdisjoint(headers)


async def test_a_trailing_slash_is_forwarded(proxied: Proxied) -> None:
    """Pages of a server refer to others relatively: it may redirect to the path with the slash, which is refused."""
    async with behind(proxied) as (client, _):
        for path in (f"{METRICS}/a/proxy/", f"{METRICS}/"):
            assert (await client.get(path)).ok(200)["target"] == path


async def test_the_user_is_forwarded(proxied: Proxied) -> None:
    async with behind(proxied) as (client, _):
        impersonated = {
            "impersonate-user": "jane", "impersonate-uid": "u-1", "impersonate-group": "system:masters",
            "impersonate-extra-example.com%2fscopes": "50% of all",
        }  # fmt: skip
        seen = (await client.request("GET", METRICS, headers=impersonated)).ok(200)
    headers = [(name, value) for name, value in seen["headers"] if name.startswith("x-remote-")]
    assert headers == [
        ("x-remote-user", "jane"),
        ("x-remote-uid", "u-1"),
        ("x-remote-group", "system:masters"),
        ("x-remote-group", "system:authenticated"),
        ("x-remote-extra-example.com%2fscopes", "50% of all"),
    ]


async def test_forwarded_responses(proxied: Proxied) -> None:
    async def answer(request: Request) -> None:
        own = {"x_own": "1", "set_cookie": "a=b", "keep_alive": "timeout=5", "date": "Thu, 01 Jan 1970 00:00:00 GMT"}
        await request.answer(b"teapot", 418, content_type="text/html", cache_control="public", **own)

    async with behind(proxied, answer) as (client, _):
        found = await client.get(METRICS)
    assert (found.code, found.body, found.header("content-type")) == (418, b"teapot", "text/html")
    assert found.header("x-own") == "1"
    assert sorted(found.headers["cache-control"]) == ["no-cache, private", "public"]
    assert "sandbox" in found.header("content-security-policy")
    # A real connection adds the date.
    assert {"set-cookie", "keep-alive", "date"}.isdisjoint(found.headers)


@pytest.mark.parametrize("code", [204, 304])
@pytest.mark.parametrize("headers", [{}, {"content_length": "5"}], ids=["without", "with"])
@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE"])
async def test_answers_without_a_body(proxied: Proxied, method: str, headers: dict[str, str], code: int) -> None:
    """A 304 may have the length of the document that it stands for (RFC 9110, 8.6)."""

    async def answer(request: Request) -> None:
        await request.answer(b"", code, etag='"x"', **headers)

    async with behind(proxied, answer) as (client, _):
        found = await client.request(method, METRICS)
        assert (found.code, found.body, found.header("etag")) == (code, b"", '"x"')
        assert found.header("content-length") == ""


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"])
async def test_each_method(proxied: Proxied, method: str) -> None:
    async with behind(proxied) as (client, server):
        body = b'{"a":1}' if method in ("POST", "PUT", "PATCH", "DELETE") else None
        found = await client.request(method, f"{METRICS}/a", body)
        assert found.code == 200
        [request] = server.of(f"{METRICS}/a")
        assert (request.method, request.body) == (method, body or b"")


async def test_connections_are_reused(proxied: Proxied) -> None:
    async with behind(proxied) as (client, server):
        before = server.connections
        for _ in range(5):
            (await client.get(METRICS)).ok(200)
        assert server.connections - before <= 1


async def test_a_connection_that_the_server_has_closed_is_replaced(proxied: Proxied) -> None:
    async def answer(request: Request) -> None:
        if len(server.of(METRICS)) == 2:
            request.writer.transport.abort()
        else:
            await request.answer_json({})

    async with behind(proxied, answer) as (client, server):
        for _ in range(3):
            (await client.get(METRICS)).ok(200)
        assert len(server.of(METRICS)) == 4


async def test_a_refused_answer_is_not_that_of_the_next_request(proxied: Proxied) -> None:
    async with behind(proxied) as (client, server):
        before = server.connections
        for number in range(4):
            headers = {"connection": "upgrade", "upgrade": f"x/{number}"} if number % 2 == 0 else {}
            found = await client.request("GET", f"{METRICS}/{number}", headers=headers)
            if headers:
                assert (found.code, found.text) == (503, "invalid upgrade response: status code 200\n")
            else:
                assert found.ok(200)["target"] == f"{METRICS}/{number}"
        assert server.connections > before


async def reset(request: Request) -> None:
    request.writer.transport.abort()


def say(data: bytes) -> Answer:
    async def answer(request: Request) -> None:
        request.writer.write(data)
        await request.writer.drain()
        request.writer.close()

    return answer


BROKEN = "error trying to reach service: net/http: HTTP/1.x transport connection broken: malformed HTTP response\n"


@pytest.mark.parametrize(
    "answer, code, text",
    [
        pytest.param(reset, 503, "error trying to reach service: read: connection reset by peer\n", id="reset"),
        pytest.param(say(b""), 503, "error trying to reach service: EOF\n", id="closed"),
        pytest.param(say(b"SSH-2.0-OpenSSH_9.2\r\n"), 503, BROKEN, id="nonsense"),
        pytest.param(
            say(b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 100_000),
            503,
            "error trying to reach service: net/http: server response headers exceeded the limit\n",
            id="endless head",
        ),
        pytest.param(
            say(b"HTTP/1.1 100 Continue\r\n\r\n" * 20),
            503,
            "error trying to reach service: net/http: too many 1xx informational responses\n",
            id="endless interim answers",
        ),
        pytest.param(
            say(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n"),
            503,
            'backend tried to switch protocol "x" when "" was requested\n',
            id="unwanted upgrade",
        ),
        pytest.param(
            say(b"HTTP/1.1 302 Found\r\nlocation: https://example.com/\r\ncontent-length: 0\r\n\r\n"),
            502,
            "the backend attempted to redirect this request, which is not permitted",
            id="redirect",
        ),
    ],
)
async def test_failures(proxied: Proxied, answer: Answer, code: int, text: str) -> None:
    async with behind(proxied, answer) as (client, _):
        found = await client.get(METRICS)
    reset_or_end = (text, "error trying to reach service: EOF\n") if "reset" in text else (text,)
    assert found.code == code
    assert found.text in reset_or_end


async def test_interim_responses_are_skipped(proxied: Proxied) -> None:
    data = b"HTTP/1.1 102 Processing\r\nx: y\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"
    async with behind(proxied, say(data)) as (client, _):
        assert (await client.get(METRICS)).ok(200) == {}


async def test_a_server_that_hangs(proxied: Proxied, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("registry.http.middleware.aggregation.REQUEST_SECONDS", 0.3)
    async with behind(proxied, hang) as (client, _):
        status = failure(await client.get(METRICS), 504, "Timeout")
        assert status["message"] == "Timeout: request did not complete within the allotted timeout"
        # Nothing else waits for it.
        (await client.get("/api/v1/namespaces")).ok(200)


async def test_a_watch_is_forwarded_event_by_event(proxied: Proxied) -> None:
    more = asyncio.Event()

    async def answer(request: Request) -> None:
        request.writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        for number in range(3):
            line = b'{"type":"ADDED","object":{"number":%d}}\n' % number
            request.writer.write(b"%x\r\n%b\r\n" % (len(line), line))
            await request.writer.drain()
            await more.wait()
            more.clear()
        request.writer.write(b"0\r\n\r\n")

    async with behind(proxied, answer) as (client, server):
        async with client.watch(f"{METRICS}?watch=true") as watch:
            for number in range(3):
                assert (await watch.event())["object"] == {"number": number}
                more.set()
        assert server.of(METRICS)[0].target.endswith("?watch=true")


async def test_a_disconnected_client_ends_the_forwarded_request(proxied: Proxied) -> None:
    gone = asyncio.Event()

    async def answer(request: Request) -> None:
        request.writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n")
        await request.writer.drain()
        assert await request.reader.read() == b""
        gone.set()

    async with behind(proxied, answer) as (client, _):
        async with client.watch(f"{METRICS}?watch=true"):
            pass
        async with asyncio.timeout(30):
            await gone.wait()


async def test_connections_of_a_tenant_are_limited(proxied: Proxied, monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(request: Request) -> None:
        request.writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n")
        await request.writer.drain()
        await request.reader.read()

    async with behind(proxied, answer) as (client, server), AsyncExitStack() as watching, asyncio.timeout(120):
        monkeypatch.setattr("registry.webhooks.streaming.CONNECTIONS_OF_TENANT", 1)

        async def is_watched() -> bool:
            """Unless a check has the connection."""
            watch = await watching.enter_async_context(client.watch(f"{METRICS}?watch=true"))
            return watch.code == 200

        await eventually(is_watched)
        found = await client.get(f"{METRICS}?watch=true")
        assert (found.code, found.header("retry-after")) == (429, "1")
        # The server is not unavailable for that: it is still checked, on a connection of this server's own.
        checks = len(server.of(BASE))
        (await client.patch(f"{PATH}/{NAME}", {"spec": {"versionPriority": 16}})).ok(200)

        async def is_checked() -> bool:
            return len(server.of(BASE)) > checks

        await eventually(is_checked)
        await wait_for_condition(client, NAME, "True")
        await watching.aclose()
        await eventually(is_watched)


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(f"{BASE}//namespaces/default/metrics", id="empty segment"),
        pytest.param(f"{BASE}/../v1/metrics", id="dots"),
        pytest.param(f"{BASE}/%2e%2e/metrics", id="escaped dots"),
        pytest.param(f"{BASE}/./metrics", id="dot"),
    ],
)
async def test_ambiguous_paths_are_refused(proxied: Proxied, path: str) -> None:
    async with behind(proxied) as (client, server):
        before = len(server.requests)
        assert (await client.get(path)).code == 404
        assert [r.target for r in server.requests[before:] if r.target != BASE] == []


async def test_authorization_comes_first(proxied: Proxied) -> None:
    as_jane = {"impersonate-user": "jane"}
    async with behind(proxied) as (client, server):
        status = failure(await client.request("GET", METRICS, headers=as_jane), 403, "Forbidden")
        assert status["message"] == (
            'metrics.metrics.example.com is forbidden: User "jane" cannot list resource "metrics" in API group '
            '"metrics.example.com" in the namespace "default"'
        )
        assert server.of(METRICS) == []
        rule = {"apiGroups": ["metrics.example.com"], "resources": ["metrics/deleted"], "verbs": ["list"]}
        rbac = "/apis/rbac.authorization.k8s.io/v1"
        (await client.post(f"{rbac}/clusterroles", {"metadata": {"name": "r"}, "rules": [rule]})).ok(201)
        binding = {
            "metadata": {"name": "r"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}],
        }
        (await client.post(f"{rbac}/clusterrolebindings", binding)).ok(201)
        # What stands for a subresource here means nothing to the other server: it would list them all.
        failure(await client.request("GET", f"{METRICS}?deleted=true", headers=as_jane), 403, "Forbidden")
        (await client.patch(f"{rbac}/clusterroles/r", {"rules": [{**rule, "resources": ["metrics"]}]})).ok(200)

        async def allowed() -> bool:
            return (await client.request("GET", METRICS, headers=as_jane)).code == 200

        await eventually(allowed)
        seen = (await client.request("GET", METRICS, headers=as_jane)).ok(200)
    headers = dict(seen["headers"])
    assert headers["x-remote-user"] == "jane"
    assert "impersonate-user" not in headers


async def test_a_removed_server_is_not_found(proxied: Proxied) -> None:
    async with behind(proxied) as (client, _):
        (await client.get(METRICS)).ok(200)
    assert (await client.get(METRICS)).code == 404
