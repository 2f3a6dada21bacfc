"""Answers that are made to cost: each is refused within its limit, with a reason, and others are served meanwhile."""

from __future__ import annotations

import asyncio
import base64
import gzip
import itertools
import logging
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import replace

import pytest

from registry.webhooks import connection, https
from registry.webhooks.answers import decoded_review
from registry.webhooks.client import WebhookClient
from registry.webhooks.connection import Origin, Unreachable
from registry.webhooks.egress import EgressPolicy
from registry.webhooks.endpoint import Endpoint
from registry.webhooks.errors import CallFailed
from registry.webhooks.https import HttpsClient, HttpsRequest, Limits
from registry.webhooks.services import Services
from tests.webhooks.hostile import Certificates, Server, answering, body, certificates, head, received, serving

LOCAL = EgressPolicy(["127.0.0.0/8"])
MB = 1 << 20
PIECE = b"[]," * 20_000


@pytest.fixture(scope="module")
def trusted(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return certificates(tmp_path_factory.mktemp("tls"))


@pytest.fixture
async def client() -> AsyncIterator[WebhookClient]:
    made = WebhookClient(LOCAL, Services())
    yield made
    await made.aclose()


@pytest.fixture
async def impatient(request: pytest.FixtureRequest) -> AsyncIterator[WebhookClient]:
    """A client with the limits of the test's parameter. Only what never comes has a short one."""
    made = WebhookClient(LOCAL, Services(), limits=request.param)
    yield made
    await made.aclose()


def chunked(pieces: Iterable[bytes]) -> Iterable[bytes]:
    yield head(transfer_encoding="chunked")
    for piece in pieces:
        yield b"%x\r\n%b\r\n" % (len(piece), piece)
    yield b"0\r\n\r\n"


def zipped(data: bytes) -> bytes:
    return body(gzip.compress(data, 9), content_encoding="gzip")


def nested(depth: int) -> bytes:
    return b'{"a":' + b"[" * depth + b"]" * depth + b"}"


# What the server sends, made when the test runs, and what the error says.
HOSTILE: dict[str, tuple[Callable[[], Iterable[bytes]], str]] = {
    "66 MB of lists": (lambda: list(chunked([PIECE] * 1100)), "the answer is longer than 16777216 bytes"),
    "66 MB of lists, compressed": (
        lambda: (zipped(b"[" + PIECE * 1100 + b"[]]"),),
        "the answer is longer than 16777216 bytes",
    ),
    "a length of 66 MB": (lambda: (head(content_length=str(66 * MB)),), "the answer is longer than 16777216 bytes"),
    "a length of 5,000 digits": (lambda: (head(content_length="9" * 5000),), "malformed HTTP response"),
    "15 MB of lists": (lambda: (body(b"[" + PIECE * 250 + b"[]]"),), "more than 500000 values"),
    "15 MB of lists, compressed": (lambda: (zipped(b"[" + PIECE * 250 + b"[]]"),), "more than 500000 values"),
    "15 MB of keys": (lambda: (body(b'{"a":{' + b'"a":1,' * 2_500_000 + b'"b":1}}'),), "more than 500000 values"),
    "15 MB of an open string": (lambda: (body(b'["' + b'\\"' * (7 * MB)),), "couldn't get version/kind"),
    "15 MB of YAML": (lambda: (body(b"- a\n" * (4 * MB - 1)),), "couldn't get version/kind"),
    "300 kB of YAML in flow style": (lambda: (body(b"{a: " + b"[" * 300_000),), "couldn't get version/kind"),
    "aliases": (
        lambda: (
            body(
                b"b0: &b0 [x,x]\n" + b"".join(b"b%d: &b%d [*b%d,*b%d]\n" % (i, i, i - 1, i - 1) for i in range(1, 40))
            ),
        ),
        "couldn't get version/kind",
    ),
    "depth": (lambda: (body(nested(100_000)),), "couldn't get version/kind"),
    "depth of a million": (lambda: (body(nested(1_000_000)),), "more than 500000 values"),
    "compressed twice": (
        lambda: (body(gzip.compress(gzip.compress(b"{}")), content_encoding="gzip, gzip"),),
        "a content encoding that was not asked for",
    ),
    "an encoding that nobody asked for": (
        lambda: (body(b"{}", content_encoding="br"),),
        "a content encoding that was not asked for",
    ),
    "half a gzip": (lambda: (body(gzip.compress(b"{}" * 100)[:20], content_encoding="gzip"),), "unexpected EOF"),
    "no gzip": (lambda: (body(b"{}", content_encoding="gzip"),), "gzip: invalid data"),
    "a million empty gzips": (
        lambda: (body(gzip.compress(b"") * 100_000, content_encoding="gzip"),),
        "gzip: invalid header",
    ),
    "one byte a chunk": (lambda: (b"".join(chunked([b"a"] * 60_000)),), "too many pieces of few bytes"),
    "a head without end": (
        lambda: itertools.chain([b"HTTP/1.1 200 OK\r\n"], itertools.repeat(b"a: b\r\n" * 1000)),
        "headers exceeded the limit",
    ),
    "trailers without end": (
        lambda: itertools.chain(
            [head(transfer_encoding="chunked"), b"1\r\na\r\n0\r\n"], itertools.repeat(b"a: b\r\n" * 1000)
        ),
        "too much non-data",
    ),
    "a chunk extension without end": (
        lambda: itertools.chain([head(transfer_encoding="chunked"), b"1;"], itertools.repeat(b"a" * 1000)),
        "too much non-data",
    ),
    "1xx without end": (lambda: itertools.repeat(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000), "too many 1xx"),
    "another protocol": (
        lambda: (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: a\r\nConnection: Upgrade\r\n\r\n",),
        "switches protocols",
    ),
    "half a body": (lambda: (head(content_length="10") + b"{}",), "EOF"),
    "nothing": (lambda: (), "EOF"),
    "no HTTP": (lambda: (b"SSH-2.0-OpenSSH\r\n\r\n",), "malformed HTTP response"),
    "no length of the body": (
        lambda: (head(content_length="2", transfer_encoding="chunked") + b"{}",),
        "malformed HTTP response",
    ),
    "compressed": (
        lambda: (head(transfer_encoding="gzip, chunked") + b"2\r\n{}\r\n0\r\n\r\n",),
        'unsupported transfer encoding: "gzip, chunked"',
    ),
    "a redirect": (
        lambda: (b"HTTP/1.1 302 Found\r\nLocation: https://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",),
        "the server responded with the status code 302",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("pieces_of, why", HOSTILE.values(), ids=HOSTILE)
async def test_hostile_answers(
    trusted: Certificates, client: WebhookClient, pieces_of: Callable[[], Iterable[bytes]], why: str
) -> None:
    async with serving(trusted, answering(pieces_of())) as server:
        started = time.monotonic()
        with pytest.raises(CallFailed) as failed:
            await client.call(1, server.endpoint, b"{}", decoded_review, repeatable=False)
        assert why in str(failed.value)
        assert len(str(failed.value)) < 6000
        assert time.monotonic() - started < 60


HEAD_LATE = "timeout awaiting response headers"
SLOW: dict[str, tuple[Limits, bool, Iterable[bytes], str]] = {
    "handshake": (Limits(tls_seconds=0.5), False, [], "TLS handshake timeout"),
    "head": (Limits(head_seconds=1), True, [b"HTTP/1.1 200 OK\r\n"], HEAD_LATE),
    "body": (
        Limits(body_seconds=1), True, [head(content_length="9"), b"{"], "context deadline exceeded while reading body",
    ),
}  # fmt: skip


@pytest.mark.parametrize("impatient, tls, pieces, why", SLOW.values(), ids=SLOW, indirect=["impatient"])
async def test_each_phase_has_its_time(
    trusted: Certificates, impatient: WebhookClient, tls: bool, pieces: Iterable[bytes], why: str
) -> None:
    async with serving(trusted, answering(pieces, then_hang=True), tls=tls) as server:
        with pytest.raises(CallFailed, match=why):
            await impatient.call(1, server.endpoint, b"{}", decoded_review, repeatable=False)


async def test_the_whole_call_has_its_time(trusted: Certificates) -> None:
    client = WebhookClient(LOCAL, Services(), timeout=0.3)
    async with serving(trusted, answering([], then_hang=True)) as server:
        with pytest.raises(CallFailed, match="context deadline exceeded"):
            await client.call(1, server.endpoint, b"{}", decoded_review)
    await client.aclose()


@pytest.mark.parametrize("impatient", [Limits(resolve_seconds=1)], ids=["lookup"], indirect=True)
async def test_a_lookup_has_its_time_and_takes_one_thread(
    impatient: WebhookClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many calls wait for a name server that does not answer; other names are found meanwhile."""
    go, lookups = threading.Event(), []

    def hanging(host: str, port: int) -> list[str]:
        lookups.append(host)
        if host == "slow.example":
            go.wait(30)
        return ["127.0.0.1"]

    monkeypatch.setattr(connection, "_addresses", hanging)
    origin = Origin("slow.example", 443)
    calls = [impatient.https.exchange(1, origin, HttpsRequest("GET", "/"), len) for _ in range(40)]
    for failure in await asyncio.gather(*calls, return_exceptions=True):
        assert isinstance(failure, Unreachable)
        assert str(failure).startswith(("dial tcp: lookup slow.example: i/o timeout", "net/http: timeout"))
    assert lookups == ["slow.example"]
    with pytest.raises(Unreachable, match="refused"):
        await impatient.https.exchange(1, Origin("fast.example", 1), HttpsRequest("GET", "/"), len)


async def test_lookups_of_a_tenant_leave_threads_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixteen names with a name server that does not answer kept all names from being found, those of others too."""
    go, made = threading.Event(), connection.Resolver()

    def hanging(host: str, port: int) -> list[str]:
        if host.startswith("slow"):
            go.wait(60)
        return ["127.0.0.1"]

    monkeypatch.setattr(connection, "_addresses", hanging)
    try:
        slow = [asyncio.create_task(made.lookup(1, f"slow{i}.example", 443)) for i in range(200)]
        async with asyncio.timeout(30):
            assert await made.lookup(2, "fast.example", 443) == ["127.0.0.1"]
        for task in slow[:100]:
            task.cancel()  # those that wait leave their turn to others
        go.set()
        async with asyncio.timeout(30):
            assert await asyncio.gather(*slow[100:]) == [["127.0.0.1"]] * 100
    finally:
        go.set()
        made.close()
    go.set()


async def test_the_checked_address_is_the_one_that_is_called(
    trusted: Certificates, client: WebhookClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that changes its address: it is resolved once for a connection, and each connection is checked."""
    answers = [["127.0.0.1"], ["10.0.0.1"], ["192.0.0.9", "::ffff:169.254.169.254", "64:ff9b::a00:1"]]
    monkeypatch.setattr(connection, "_addresses", lambda host, port: answers.pop(0))
    async with serving(trusted, answering([body(b"{}", connection="close")])) as server:
        origin = Origin("localhost", server.port, server.ca)
        status = await client.https.exchange(1, origin, HttpsRequest("GET", "/"), lambda answer: answer.status)
        assert status == 200
        assert len(answers) == 2, "resolved once"
        for left in (1, 0):
            with pytest.raises(Unreachable, match="the address is not one that webhooks may be called at"):
                await client.https.exchange(1, origin, HttpsRequest("GET", "/"), len)
            assert len(answers) == left


async def test_a_connection_that_leads_elsewhere_is_closed(
    trusted: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As behind a translator in the kernel: the peer is checked as well as the address."""

    class Changing(EgressPolicy):
        verdicts = iter([True, False])

        def allows(self, address: str) -> bool:
            return next(self.verdicts)

    client = HttpsClient(Changing())
    async with serving(trusted, answering([body(b"{}")])) as server:
        with pytest.raises(Unreachable, match="the connection leads to another address"):
            await client.exchange(1, server.origin, HttpsRequest("GET", "/"), len)
    await client.aclose()


async def test_only_the_beginning_of_a_refusal_is_read(trusted: Certificates, client: WebhookClient) -> None:
    refusal = b"HTTP/1.1 500 no\r\nContent-Type: text/plain\r\nContent-Length: 66000000\r\n\r\n" + b"it broke\n" * 8000
    async with serving(trusted, answering([refusal], then_hang=True)) as server:
        with pytest.raises(CallFailed, match="it broke"):
            await client.call(1, server.endpoint, b"{}", decoded_review, repeatable=False)


async def test_others_are_served_while_a_large_answer_is_decoded(trusted: Certificates, client: WebhookClient) -> None:
    """The decoding waits here for the event loop, which comes to it only if that is done beside it."""
    begun, go = threading.Event(), threading.Event()

    def decode(data: bytes) -> int:
        begun.set()
        assert go.wait(30)
        return len(data)

    async with serving(trusted, answering([body(PIECE * 2)])) as server:
        call = asyncio.create_task(client.call(1, server.endpoint, b"{}", decode))
        await asyncio.to_thread(begun.wait, 30)
        go.set()
        assert await call == len(PIECE * 2)


@pytest.mark.slow
async def test_memory_is_bounded(trusted: Certificates, client: WebhookClient) -> None:
    """Twenty answers at once of 88 MB, compressed to some kilobytes: one at a time is beyond a megabyte."""
    bomb = zipped(b"[" + PIECE * 1100 + b"[]]")
    tracemalloc.start()
    async with serving(trusted, answering([bomb])) as server:
        calls = [client.call(1, server.endpoint, b"{}", decoded_review, repeatable=False) for _ in range(20)]
        failures = await asyncio.gather(*calls, return_exceptions=True)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert all("the answer is longer than" in str(failure) for failure in failures)
    assert peak < 100 * MB


async def test_long_answers_of_some_tenants_leave_room_for_those_of_another(
    trusted: Certificates, client: WebhookClient
) -> None:
    """Four tenants held all places for long answers as long as they liked, and another's failed after ten seconds."""
    hanging = asyncio.Event()

    async def half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await received(reader)
        writer.write(head(content_length=str(16 * MB)) + b"x" * (15 * MB))
        await writer.drain()
        hanging.set()
        await reader.read()

    async with serving(trusted, half) as slow, serving(trusted, answering([body(b" " * (3 * MB))])) as other:
        calls = [
            asyncio.create_task(client.https.exchange(n, slow.origin, HttpsRequest("GET", "/"), len)) for n in range(8)
        ]
        await hanging.wait()
        for tenant in (20, 21, 20):
            data = await client.https.exchange(
                tenant, other.origin, HttpsRequest("GET", "/"), lambda answer: answer.data
            )
            assert len(data) == 3 * MB
        for call in calls:
            call.cancel()
        failures = await asyncio.gather(*calls, return_exceptions=True)
        assert all("too many long answers" in str(one) or isinstance(one, asyncio.CancelledError) for one in failures)
    async with serving(trusted, answering([body(b" " * (15 * MB))])) as whole:  # all was given back
        assert (
            await client.https.exchange(1, whole.origin, HttpsRequest("GET", "/"), lambda answer: len(answer.data))
            == 15 * MB
        )


async def test_servers_of_others_keep_their_connections(trusted: Certificates, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where connections to too many servers are kept, one that nobody waits for is closed."""
    monkeypatch.setattr(https, "_IDLE", 2)
    client = HttpsClient(LOCAL, Limits())
    go = asyncio.Event()

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await received(reader)
        await go.wait()
        writer.write(body(b"late"))
        await writer.drain()

    async with serving(trusted, slow) as first, serving(trusted, answering([body(b"{}")])) as other:
        waiting = asyncio.create_task(_data(client, first))
        for port in range(1, 5):
            with pytest.raises(Unreachable):
                await client.exchange(1, Origin("127.0.0.1", port), HttpsRequest("GET", "/"), len)
        assert await _data(client, other) == b"{}"
        go.set()
        assert await waiting == b"late"
    await client.aclose()


async def _data(client: HttpsClient, server: Server) -> bytes:
    return await client.exchange(1, server.origin, HttpsRequest("GET", "/"), lambda answer: answer.data)


async def test_a_call_writes_no_line_of_log(
    trusted: Certificates, client: WebhookClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with serving(trusted, answering([body(b"{}")])) as server:
        assert await client.call(1, server.endpoint, b"{}", decoded_review) == {}
    assert not caplog.records


@pytest.mark.parametrize("bundle", [b"\xc3\xa9", b"\xff", b" ", b"PEM"], ids=["UTF-8", "bytes", "blank", "text"])
async def test_what_is_no_bundle_does_not_mean_the_systems_roots(client: WebhookClient, bundle: bytes) -> None:
    endpoint = Endpoint("https://127.0.0.1:1/", "127.0.0.1", 1, "/", base64.b64encode(bundle).decode())
    with pytest.raises(CallFailed, match="unable to load root certificates"):
        await client.call(1, endpoint, b"{}", decoded_review)


FIRST_CALL = """
import asyncio, sys
import registry.http.composition
from registry.webhooks.connection import Origin, Unreachable
from registry.webhooks.egress import EgressPolicy
from registry.webhooks.https import HttpsClient, HttpsRequest

async def call():
    client = HttpsClient(EgressPolicy(["127.0.0.0/8"]))
    try:
        await client.exchange(1, Origin("127.0.0.1", 1, ""), HttpsRequest("GET", "/"), lambda answer: answer)
    except Unreachable:
        pass
    await client.aclose()

before = {*sys.modules}
asyncio.run(call())
print(*sorted({*sys.modules} - before))
"""


def test_the_first_call_imports_nothing_on_the_event_loop() -> None:
    """It took a tenth of a second, in which nobody else was served."""
    done = subprocess.run([sys.executable, "-c", FIRST_CALL], capture_output=True, text=True, check=True)
    assert [name for name in done.stdout.split() if name.startswith(("anyio._backends", "httptools"))] == []


async def test_a_server_that_hangs_for_one_tenant_answers_another(trusted: Certificates, client: WebhookClient) -> None:
    """500 calls of one tenant had all connections to a server, so that those of another failed after 30 seconds."""
    go, waiting = asyncio.Event(), 0

    async def hanging_at_times(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal waiting
        if b"/slow" in await reader.readuntil(b"\r\n\r\n"):
            waiting += 1
            await go.wait()
        writer.write(body(b"{}", connection="close"))
        await writer.drain()

    async with serving(trusted, hanging_at_times) as server:
        calls = [
            asyncio.create_task(client.https.exchange(1, server.origin, HttpsRequest("GET", "/slow"), len))
            for _ in range(100)
        ]
        await client.https.exchange(2, server.origin, HttpsRequest("GET", "/"), lambda answer: answer.data)
        assert waiting <= 16
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        go.set()


async def test_a_tenant_has_few_connections_to_however_many_servers(
    trusted: Certificates, client: WebhookClient
) -> None:
    """A thousand webhooks at a thousand servers that hang had a connection each."""
    go, waiting = asyncio.Event(), 0

    async def hanging(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal waiting
        waiting += 1
        await go.wait()

    async with serving(trusted, hanging) as server, serving(trusted, answering([body(b"{}")])) as other:
        # Other bundles make them other servers.
        origins = [replace(server.origin, ca=server.ca + "\n" * i) for i in range(100)]
        calls = [
            asyncio.create_task(client.https.exchange(1, origin, HttpsRequest("GET", "/"), len)) for origin in origins
        ]
        await client.https.exchange(2, other.origin, HttpsRequest("GET", "/"), lambda answer: answer.data)
        assert waiting <= 64
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        go.set()


async def test_a_bundle_is_bounded(client: WebhookClient) -> None:
    with pytest.raises(Unreachable, match="the CA bundle is longer than"):
        await client.https.exchange(1, Origin("127.0.0.1", 1, "a" * (1 << 20)), HttpsRequest("GET", "/"), len)


@pytest.mark.parametrize("answered, heard", [(0, 1), (1, 3)], ids=["a new connection", "a kept one"])
async def test_a_call_is_repeated_if_a_kept_connection_ends_without_an_answer(
    trusted: Certificates, client: WebhookClient, answered: int, heard: int
) -> None:
    """The kept connection may just have been closed by the server; a new one has not been."""
    requests = 0

    async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal requests
        while True:
            await received(reader)
            requests += 1
            if requests > answered:
                return
            writer.write(body(b"{}"))
            await writer.drain()

    async with serving(trusted, answers) as server:
        for _ in range(answered):
            await client.call(1, server.endpoint, b"{}", len)
        with pytest.raises(CallFailed, match="EOF"):
            await client.call(1, server.endpoint, b"{}", len)
    assert requests == heard
