"""Requests that switch protocols (WebSocket, SPDY), and streams over real connections: a started server, a raw client."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.aggregation.backend import BASE, NAME, SERVICE, Answer, Backend, Request, backend
from tests.aggregation.objects import PATH, api_service
from tests.api.client import eventually
from tests.folders import data_folder
from tests.running import RunningServer, running_server

EXEC = f"{BASE}/namespaces/default/metrics/a/exec"
TENANTS = "/clusters/system/apis/tenancy.registry/v1/tenants"


@contextlib.asynccontextmanager
async def started(folder: Path, answer: Answer, tenant: str = "") -> AsyncIterator[tuple[RunningServer, Backend]]:
    """The server is registered in a new tenant, if one is named."""
    async with backend(folder / "server", answer) as server:
        with data_folder() as data:
            # Less than what is uploaded: what has been passed on is not held.
            limits = ("--upload-limit-megabytes", "16")
            arguments = ("--webhook-services", f"{SERVICE}=127.0.0.1:{server.port}", *limits)
            start = asyncio.to_thread(lambda: contexts.enter_context(running_server(data, *arguments)))
            with contextlib.ExitStack() as contexts:
                running = await start
                spec = {"service": {"namespace": "kube-system", "name": "metrics"}, "caBundle": server.bundle}
                if tenant:
                    made = {"apiVersion": "tenancy.registry/v1", "kind": "Tenant", "metadata": {"name": tenant}}
                    await asyncio.to_thread(_ask, running, TENANTS, made)
                path = f"/clusters/{tenant}{PATH}" if tenant else PATH
                await asyncio.to_thread(_ask, running, path, api_service(NAME, **spec))
                for _ in range(600):
                    found = await asyncio.to_thread(_ask, running, f"{path}/{NAME}")
                    if "Passed" in json.dumps(found):
                        break
                    await asyncio.sleep(0.05)
                try:
                    yield running, server
                finally:
                    await _end_connections()


def _ask(server: RunningServer, path: str, body: Any = None, kind: str = "application/json") -> Any:
    """Sends a patch if `kind` is one of a patch."""
    request = urllib.request.Request(
        server.url + path,
        None if body is None else json.dumps(body).encode(),
        {"authorization": f"Bearer {server.token}", "content-type": kind},
        method="PATCH" if "patch" in kind else None,
    )
    with urllib.request.urlopen(request, context=ssl.create_default_context(cafile=str(server.authority))) as answer:
        return json.loads(answer.read())


# Of the connections that a test has opened. One that it closes still waits for the end of its TLS session, and the loop of
# the test may end before that.
_writers: list[asyncio.StreamWriter] = []


async def connect(server: RunningServer) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    context = ssl.create_default_context(cafile=str(server.authority))
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context)
    _writers.append(writer)
    return reader, writer


async def _end_connections() -> None:
    for writer in _writers:
        writer.transport.abort()
    for writer in _writers:
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    _writers.clear()


def upgrade(server: RunningServer, *lines: str, path: str = f"{EXEC}?command=ls") -> bytes:
    head = (
        f"GET {path} HTTP/1.1", "host: a", f"authorization: Bearer {server.token}",
        "connection: Upgrade", "upgrade: websocket", *lines,
    )  # fmt: skip
    return "\r\n".join(head).encode() + b"\r\n\r\n"


async def echo(request: Request) -> None:
    assert dict(request.headers)["upgrade"] == "websocket"
    request.writer.write(b"HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\r\nhello ")
    while data := await request.reader.read(100_000):
        request.writer.write(data.upper())
        await request.writer.drain()
    request.writer.close()


@pytest.mark.slow
async def test_upgrades(tmp_path: Path) -> None:
    closed = asyncio.Event()

    async def answer(request: Request) -> None:
        if request.header("x-refuse"):
            await request.answer(b"no", 403)
        elif request.header("x-plain"):
            await request.answer(b"no")
        elif request.header("x-bare"):
            request.writer.write(b"HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 101 Switching Protocols\r\n\r\nhel")
            await request.writer.drain()
            request.writer.write(b"lo HTTP/1.1")
            request.writer.close()
        else:
            await echo(request)
            closed.set()

    async with started(tmp_path, answer) as (server, behind), asyncio.timeout(120):
        # Both directions, more than any buffer holds.
        reader, writer = await connect(server)
        writer.write(upgrade(server))
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101 ")
        assert b"upgrade: websocket" in head.lower()
        assert b"content-length" not in head.lower()
        assert b"transfer-encoding" not in head.lower()
        assert await reader.readexactly(6) == b"hello "
        large = b"a" * 3_000_000

        async def send() -> None:
            writer.write(large)
            await writer.drain()

        sending = asyncio.create_task(send())
        assert await reader.readexactly(len(large)) == large.upper()
        await sending
        # The end of one side is the end of the other.
        writer.close()
        await closed.wait()
        request = behind.of(EXEC)[0]
        assert (request.header("x-remote-user"), request.all("authorization")) == ("admin", [])
        # A server that does not switch: its error comes back, anything else is one.
        for header, expected in (("x-refuse: 1", b"HTTP/1.1 403 "), ("x-plain: 1", b"HTTP/1.1 503 ")):
            reader, writer = await connect(server)
            writer.write(upgrade(server, header))
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(expected)
            if b"503" in expected:
                text = b"invalid upgrade response: status code 200\n"
                assert await reader.readexactly(len(text)) == text
            writer.close()
        # One that does not say to which protocol it switches: kube-apiserver passes on what it sends, too.
        reader, writer = await connect(server)
        writer.write(upgrade(server, "x-bare: 1"))
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
        assert await reader.read(-1) == b"hello HTTP/1.1"
        writer.close()
        # What comes before the answer may be another request: it is never taken for a part of the stream.
        reader, writer = await connect(server)
        writer.write(upgrade(server) + b"GET /readyz HTTP/1.1\r\nhost: a\r\n\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503 ")
        writer.close()


@pytest.mark.slow
async def test_streams(tmp_path: Path) -> None:
    """A long upload and an endless answer hold no more than buffers, and the server stops anyway."""
    gone = asyncio.Event()

    async def answer(request: Request) -> None:
        if request.method == "PUT":
            await request.answer_json({"size": len(request.body), "chunked": request.header("transfer-encoding")})
            return
        request.writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        with contextlib.suppress(OSError):
            # After the other side has closed TLS, asyncio takes more without ever waiting: the end is seen by reading.
            while not request.reader.at_eof():
                request.writer.write(b"10000\r\n" + b"a" * 65536 + b"\r\n")
                await request.writer.drain()
                await asyncio.sleep(0)
        gone.set()

    async with started(tmp_path, answer) as (server, _), asyncio.timeout(120):
        reader, writer = await connect(server)
        lines = (
            f"PUT {BASE}/namespaces/default/metrics/a HTTP/1.1", "host: a", f"authorization: Bearer {server.token}",
            "transfer-encoding: chunked",
        )  # fmt: skip
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n")
        for _ in range(160):
            writer.write(b"10000\r\n" + b"a" * 65536 + b"\r\n")
            await writer.drain()
        writer.write(b"0\r\n\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 ")
        assert json.loads(await reader.readuntil(b"}")) == {"size": 160 * 65536, "chunked": "chunked"}
        writer.close()
        reader, writer = await connect(server)
        watch = (f"GET {BASE}/metrics?watch=1 HTTP/1.1", "host: a", f"authorization: Bearer {server.token}")
        writer.write("\r\n".join(watch).encode() + b"\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(1_000_000)
        # The client reads no more: neither does the server, and it stops as soon as it is asked to.
        assert await asyncio.to_thread(server.stop, timeout_seconds=60) == 0
        await gone.wait()
        writer.close()


@pytest.mark.slow
async def test_tunnels_of_a_suspended_tenant_end(tmp_path: Path) -> None:
    """A tunnel that a GET had opened went on, so a client could write; a watch over a WebSocket goes on."""

    async def answer(request: Request) -> None:
        if request.header("upgrade"):
            await echo(request)
        else:
            await request.answer_json({})

    def exchange(path: str) -> bytes:
        return upgrade(server, path=f"/clusters/acme{path}")

    async with started(tmp_path, answer, "acme") as (server, _), asyncio.timeout(120):
        tunnel, writer = await connect(server)
        writer.write(exchange(EXEC))
        watch, watcher = await connect(server)
        watcher.write(exchange(f"{BASE}/metrics?watch=true"))
        for reader in (tunnel, watch):
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
            assert await reader.readexactly(6) == b"hello "
        change = {"spec": {"suspended": True}}
        await asyncio.to_thread(_ask, server, f"{TENANTS}/acme", change, "application/merge-patch+json")
        assert await tunnel.read() == b""
        watcher.write(b"still here")
        assert await watch.readexactly(10) == b"STILL HERE"
        refused, another = await connect(server)
        another.write(exchange(EXEC))
        assert (await refused.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 403 ")
        for one in (writer, watcher, another):
            one.close()


SPDY = (
    f"POST {EXEC}?command=cat&stdin=true HTTP/1.1", "host: a", "content-length: 0", "connection: Upgrade",
    "upgrade: SPDY/3.1", "x-stream-protocol-version: v5.channel.k8s.io", "x-stream-protocol-version: v4.channel.k8s.io",
)  # fmt: skip
CHANNELS = (
    f"GET {EXEC}?command=cat&stdin=true HTTP/1.1", "host: a", "connection: keep-alive, Upgrade", "upgrade: websocket",
    "sec-websocket-version: 13", "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==",
    "sec-websocket-protocol: v5.channel.k8s.io",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    "lines, answered",
    [
        pytest.param(SPDY, ("upgrade: SPDY/3.1", "x-stream-protocol-version: v4.channel.k8s.io"), id="SPDY"),
        pytest.param(CHANNELS, ("upgrade: websocket", "sec-websocket-protocol: v5.channel.k8s.io"), id="WebSocket"),
    ],
)
async def test_what_a_server_has_sent_arrives_when_it_leaves(
    tmp_path: Path, lines: tuple[str, ...], answered: tuple[str, ...]
) -> None:
    """Upgrades like those of `kubectl exec`: the last tens of kilobytes were lost when the server closed."""
    # As much as sockets hold: a client that takes more than a second for the rest loses it.
    data = bytes(range(256)) * 1024
    received: asyncio.Queue[bytes] = asyncio.Queue()

    async def answer(request: Request) -> None:
        if request.header("x-refuse"):
            await request.answer_json({"kind": "Status", "message": "not you", "code": 403}, 403)
            return
        head = ("HTTP/1.1 101 Switching Protocols", "connection: Upgrade", *answered)
        request.writer.write("\r\n".join(head).encode() + b"\r\n\r\n")
        if request.header("x-send"):
            request.writer.write(data)
            await request.writer.drain()
        else:
            received.put_nowait(await request.reader.readexactly(len(data)))
            received.put_nowait(await request.reader.read())
        request.writer.close()

    async with started(tmp_path, answer) as (server, behind), asyncio.timeout(120):

        async def ask(*more: str) -> tuple[bytes, asyncio.StreamReader, asyncio.StreamWriter]:
            reader, writer = await connect(server)
            head = (*lines, f"authorization: Bearer {server.token}", *more)
            writer.write("\r\n".join(head).encode() + b"\r\n\r\n")
            return await reader.readuntil(b"\r\n\r\n"), reader, writer

        # The server sends and leaves, before the client has read anything.
        head, reader, writer = await ask("x-send: 1")
        assert head.startswith(b"HTTP/1.1 101 ")
        assert all(line.encode() in head for line in answered)
        assert await reader.read(-1) == data
        writer.close()
        request = behind.of(EXEC)[-1]
        assert request.method == lines[0].split(" ")[0]
        assert [value for name, value in request.headers if name.endswith(("protocol", "protocol-version"))] == [
            line.partition(": ")[2] for line in lines if "channel" in line
        ]
        # The client sends, and leaves at once.
        _, reader, writer = await ask()
        writer.write(data)
        writer.close()
        assert await received.get() == data
        assert await received.get() == b""
        # The server refuses: its answer is the client's, and the connection serves another request.
        head, reader, writer = await ask("x-refuse: 1")
        assert head.startswith(b"HTTP/1.1 403 ")
        assert json.loads(await reader.readuntil(b"}"))["message"] == "not you"
        writer.close()


@pytest.mark.slow
async def test_what_a_client_has_sent_arrives_when_it_leaves(tmp_path: Path) -> None:
    """Also at a server that sends meanwhile, to nobody."""
    data, received = bytes(range(256)) * 2048, asyncio.Event()

    async def answer(request: Request) -> None:
        request.writer.write(b"HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\r\n")
        for start in range(0, len(data), 4096):
            assert await request.reader.readexactly(4096) == data[start : start + 4096]
            request.writer.write(b"more")
            await asyncio.sleep(0.001)  # slower than the client
        received.set()

    def send(server: RunningServer) -> socket.socket:
        """Sends, and ends its side of the TCP connection only: a closed one with unread data would be reset."""
        plain = socket.create_connection(("127.0.0.1", server.port))
        context = ssl.create_default_context(cafile=str(server.authority))
        tls = context.wrap_socket(plain, server_hostname="127.0.0.1")
        tls.sendall(upgrade(server))
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += tls.recv(1)
        tls.sendall(data)
        tls.shutdown(socket.SHUT_WR)
        return tls

    async with started(tmp_path, answer) as (server, _), asyncio.timeout(120):
        with await asyncio.to_thread(send, server):
            await received.wait()


@pytest.mark.slow
async def test_a_tunnel_to_a_server_that_reads_nothing_ends_with_its_client(tmp_path: Path) -> None:
    """Its buffers were kept for as long as the server wanted, also after the deletion of the tenant."""
    over = asyncio.Event()

    async def answer(request: Request) -> None:
        request.writer.write(b"HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\r\n")
        await over.wait()

    def tunnels(server: RunningServer) -> float:
        request = urllib.request.Request(server.url + "/metrics", headers={"authorization": f"Bearer {server.token}"})
        context = ssl.create_default_context(cafile=str(server.authority))
        with urllib.request.urlopen(request, context=context) as metrics:
            lines = metrics.read().decode().splitlines()
        return float(next(line.split()[1] for line in lines if line.startswith("apiserver_longrunning_requests ")))

    async with started(tmp_path, answer) as (server, _), asyncio.timeout(120):
        before = await asyncio.to_thread(tunnels, server)
        _, writer = await connect(server)
        writer.write(upgrade(server))
        await eventually(lambda: asyncio.to_thread(lambda: tunnels(server) > before))
        writer.write(bytes(8_000_000))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1):
                await writer.drain()  # until nothing more is taken
        writer.transport.abort()
        await eventually(lambda: asyncio.to_thread(lambda: tunnels(server) == before))
        over.set()


@pytest.mark.slow
@pytest.mark.parametrize(
    "framing, part", [("content-length: 1000", b"{"), ("transfer-encoding: chunked", b"1\r\n{\r\n")]
)
async def test_a_server_that_answers_before_the_body_gets_no_further_request(
    tmp_path: Path, framing: str, part: bytes
) -> None:
    """It takes what comes next for the rest of the body: the requests of others, of which parts would then count as
    requests of any user."""
    rest: asyncio.Queue[bytes] = asyncio.Queue()

    async def answer(request: Request) -> None:
        await request.answer(b"{}", 403 if request.method == "PUT" else 200)
        if request.method == "PUT":
            rest.put_nowait(await request.reader.read())

    async with started(tmp_path, answer) as (server, behind), asyncio.timeout(120):
        behind.reads_bodies = False
        common = f"HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {server.token}\r\n"
        reader, writer = await connect(server)
        writer.write(f"PUT {BASE}/namespaces/default/metrics/a {common}{framing}\r\n\r\n".encode() + part)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 403 ")
        assert await reader.readexactly(2) == b"{}"
        other_reader, other_writer = await connect(server)
        other_writer.write(f"GET {BASE}/namespaces/default/metrics/b {common}\r\n".encode())
        head = await other_reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 ")
        assert await rest.get() == part
        writer.close()
        other_writer.close()
