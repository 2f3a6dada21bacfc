"""Connections are counted when they are accepted; those above the limit are closed before TLS."""

from __future__ import annotations

import asyncio
import errno
import gc
import resource
import socket
import ssl
import struct
import tracemalloc
import weakref
from pathlib import Path
from typing import Any

import pytest
import uvloop

from registry.flowcontrol.time_slice import IS_GONE
from registry.http.serving import acceptor as module
from registry.http.serving.acceptor import Acceptor, most_connections
from registry.http.serving.connection import RECEIVED_BYTES, ClientConnection
from registry.http.serving.protocol import Protocol
from registry.http.serving.tls import ensure_certificates, server_context
from tests.api.client import eventually
from tests.http.acceptors import accepting
from tests.http.streams import POST, REQUEST, Application, Streams, answer, ended, hello


async def status_of(streams: Streams) -> int:
    """The code of an answer on this connection."""
    streams[1].write(REQUEST)
    return (await answer(streams[0]))[0]


async def counts(acceptor: Acceptor, wanted: int) -> None:
    async def so() -> bool:
        return acceptor.shares.count == wanted

    await eventually(so)


async def test_a_missing_handshake_times_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HANDSHAKE_SECONDS", 0.2)
    made = ensure_certificates(tmp_path, "127.0.0.1")
    trust = ssl.create_default_context(cafile=str(made.authority))
    async with accepting(1, server_context(made.certificate, made.key)) as (acceptor, port):
        silent, silent_writer = await asyncio.open_connection("127.0.0.1", port)
        assert await ended(silent) == b""
        await counts(acceptor, 0)
        nonsense, nonsense_writer = await asyncio.open_connection("127.0.0.1", port)
        nonsense_writer.write(REQUEST)
        await ended(nonsense)
        await counts(acceptor, 0)
        monkeypatch.setattr(module, "HANDSHAKE_SECONDS", 60.0)
        good = await asyncio.open_connection("127.0.0.1", port, ssl=trust)
        assert await status_of(good) == 200
        assert acceptor.shares.count == 1
        for writer in (silent_writer, nonsense_writer, good[1]):
            writer.close()


@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "TLS"])
async def test_a_connection_is_lost_if_its_acceptance_is_cancelled(
    encrypted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that shut down in that moment failed at a transport that uvloop had closed: 'the handler is closed'."""
    made = ensure_certificates(tmp_path, "127.0.0.1")
    context = server_context(made.certificate, made.key) if encrypted else None
    connection_made = ClientConnection.connection_made
    references: list[weakref.ref[Protocol]] = []
    async with accepting(1, context, references=references) as (acceptor, port):

        def cancelled(self: ClientConnection, transport: asyncio.BaseTransport) -> None:
            connection_made(self, transport)
            [task] = acceptor._handshakes
            task.cancel()

        monkeypatch.setattr(ClientConnection, "connection_made", cancelled)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert await ended(reader) == b""
        await counts(acceptor, 0)
        writer.close()
        monkeypatch.setattr(ClientConnection, "connection_made", connection_made)
        [reference] = references
        if (protocol := reference()) is not None:
            assert protocol not in protocol.connections


async def test_an_idle_connection_ends_so_long_after_its_last_answer() -> None:
    clock = asyncio.get_running_loop().time
    async with accepting(1, idle_seconds=0.4) as (_, port):
        streams = await asyncio.open_connection("127.0.0.1", port)
        began = clock()
        while clock() - began < 1:  # longer than it may be idle
            assert await status_of(streams) == 200
            await asyncio.sleep(0.05)
        last = clock()
        assert await status_of(streams) == 200
        assert await ended(streams[0]) == b""
        assert clock() - last > 0.39
        streams[1].close()


async def test_a_tls_read_allocates_only_the_received_bytes(tmp_path: Path) -> None:
    """An event loop allocates 256 KiB for each read, unless it is given a buffer (connection.py)."""
    made = ensure_certificates(tmp_path, "127.0.0.1")
    trust = ssl.create_default_context(cafile=str(made.authority))

    def exchange(client: ssl.SSLSocket) -> None:
        client.sendall(REQUEST)
        assert client.recv(4096).startswith(b"HTTP/1.1 200 ")

    async with accepting(1, server_context(made.certificate, made.key)) as (_acceptor, port):
        # A blocking client in a thread: an event loop's would allocate as much.
        plain = await asyncio.to_thread(socket.create_connection, ("127.0.0.1", port))
        client = await asyncio.to_thread(trust.wrap_socket, plain, server_hostname="127.0.0.1")
        with client:
            await asyncio.to_thread(exchange, client)
            tracemalloc.start()
            try:
                await asyncio.to_thread(exchange, client)
                _, peak = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
    assert peak < 128 * 1024


async def test_accepting_pauses_without_free_file_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_RETRY_SECONDS", 0.01)
    failures = 3

    class Exhausted(socket.socket):
        def accept(self) -> Any:
            nonlocal failures
            failures -= 1
            if failures >= 0:
                raise OSError(errno.EMFILE, "Too many open files")
            return super().accept()

    async with accepting(9) as (acceptor, port):
        acceptor.stop()
        [plain] = acceptor._listeners
        acceptor._listeners = [Exhausted(fileno=plain.dup().detach())]
        acceptor.start()
        streams = await asyncio.open_connection("127.0.0.1", port)
        assert await status_of(streams) == 200
        assert failures < 0
        streams[1].close()
        acceptor.stop()
        acceptor._listeners[0].close()
        acceptor._listeners = [plain]


def test_connections_are_limited_by_file_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    assert most_connections(10) == 10
    monkeypatch.setattr(resource, "getrlimit", lambda which: (1024, 4096))
    assert most_connections(10_000) == 1024 - module.OTHER_FILES
    monkeypatch.setattr(resource, "getrlimit", lambda which: (64, 64))
    assert most_connections(10_000) == 1
    monkeypatch.setattr(resource, "getrlimit", lambda which: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert most_connections(10_000) == 10_000


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
async def test_a_request_without_tls_gets_an_explanation(method: str, tmp_path: Path) -> None:
    made = ensure_certificates(tmp_path, "127.0.0.1", ())
    async with accepting(10, server_context(made.certificate, made.key)) as (acceptor, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"{method} /api HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret\r\n\r\n".encode())
        said = await asyncio.wait_for(reader.read(), 30)
        assert said == b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
        writer.close()
        await counts(acceptor, 0)


@pytest.mark.parametrize("sent", [b"", b"G", b"SSH-2.0-x\r\n", b"\x00\x00\x00\x00\x00"], ids=repr)
async def test_connections_that_are_neither_tls_nor_http_are_closed(sent: bytes, tmp_path: Path) -> None:
    made = ensure_certificates(tmp_path, "127.0.0.1", ())
    async with accepting(10, server_context(made.certificate, made.key)) as (acceptor, port):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        writer.write_eof()
        await counts(acceptor, 0)
        writer.close()


async def _is_lost(scope: dict[str, Any]) -> None:
    while not scope[IS_GONE]():  # noqa: ASYNC110 - it is a function
        await asyncio.sleep(0.001)


async def _answers_late(scope: dict[str, Any], receive: Any, send: Any) -> None:
    await _is_lost(scope)
    await hello(scope, receive, send)


async def _answers_twice(scope: dict[str, Any], receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"1", "more_body": True})
    await _is_lost(scope)
    await send({"type": "http.response.body", "body": b"2"})


def _reset(writer: asyncio.StreamWriter) -> None:
    """Closes a connection by RST instead of FIN."""
    client = writer.get_extra_info("socket")
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def _refuses(scope: dict[str, Any], receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 429, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


@pytest.mark.parametrize("uses_tls", [False, True], ids=["plain", "TLS"])
@pytest.mark.parametrize(
    "application, sent",
    [
        pytest.param(hello, REQUEST, id="answered"),
        pytest.param(hello, REQUEST[:-2], id="half a head"),
        pytest.param(hello, POST + b"content-length: 9\r\n\r\n1234", id="half a body"),
        pytest.param(_refuses, POST + b"content-length: 9\r\n\r\n1234", id="half a body, refused"),
        pytest.param(hello, b"nonsense\r\n\r\n", id="no HTTP"),
        pytest.param(hello, REQUEST[:-2] + b"a: " + b"b" * 200_000, id="a long head"),
        pytest.param(hello, REQUEST[:-2] + b"a: b\r\n" * 10_000, id="many fields"),
        pytest.param(hello, REQUEST * 100, id="too many requests ahead"),
        pytest.param(hello, b"", id="nothing"),
    ],
)
def test_closed_connections_are_freed_at_once(
    tmp_path: Path, uses_tls: bool, application: Application, sent: bytes
) -> None:
    """Not only by the garbage collector, which runs seldom: a TLS connection holds hundreds of kilobytes of buffers."""
    server, client = _contexts(tmp_path) if uses_tls else (None, None)
    _require_freed(server, client, application, sent)


@pytest.mark.parametrize("uses_tls", [False, True], ids=["plain", "TLS"])
@pytest.mark.parametrize(
    "application, awaited",
    [
        pytest.param(hello, b"\r\n\r\n0", id="idle"),
        pytest.param(_answers_twice, b"1", id="in an answer"),
        pytest.param(_answers_late, b"", id="before the answer"),
    ],
)
def test_reset_connections_are_freed_at_once(
    tmp_path: Path, uses_tls: bool, application: Application, awaited: bytes
) -> None:
    """uvicorn leaves the timer of an idle connection running after a reset, and the timer refers to the connection."""
    server, client = _contexts(tmp_path) if uses_tls else (None, None)
    _require_freed(server, client, application, REQUEST, awaited)


def test_a_failed_handshake_is_freed_at_once(tmp_path: Path) -> None:
    _require_freed(_contexts(tmp_path)[0], None, hello, b"neither TLS nor HTTP")


def _require_freed(
    server: ssl.SSLContext | None,
    client: ssl.SSLContext | None,
    application: Application,
    sent: bytes,
    awaited: bytes | None = None,
) -> None:
    """On the event loop that servers have: asyncio's own keeps what failed until the next collection.

    With `awaited`, the client resets the connection once it has received these bytes.
    """
    references: list[weakref.ref[Protocol]] = []

    async def is_freed() -> bool:
        return len(references) == 1 and references[0]() is None

    async def has_request() -> bool:
        return len(references) == 1 and (made := references[0]()) is not None and made.cycle is not None

    async def connect() -> None:
        async with accepting(9, server, application, references) as (_, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client)
            writer.write(sent)
            if client is None and server is not None:
                await ended(reader)
            if awaited is None:
                writer.close()
            else:
                await (reader.readuntil(awaited) if awaited else eventually(has_request))
                _reset(writer)
            await eventually(is_freed)

    gc.disable()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(connect())
    finally:
        gc.enable()


def _contexts(folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A server's and a client's."""
    made = ensure_certificates(folder, "127.0.0.1", ())
    return server_context(made.certificate, made.key), ssl.create_default_context(cafile=str(made.authority))


async def test_little_is_received_ahead_of_the_event_loop() -> None:
    """Linux reports twice the size that was set; by default it grows to megabytes, which a TLS connection's buffers
    follow."""
    references: list[weakref.ref[Protocol]] = []
    async with accepting(1, references=references) as (_, port):
        streams = await asyncio.open_connection("127.0.0.1", port)
        assert await status_of(streams) == 200
        protocol = references[0]()
        assert protocol is not None
        accepted = protocol.transport.get_extra_info("socket")
        assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) <= RECEIVED_BYTES
        streams[1].close()
