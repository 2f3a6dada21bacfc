"""Connections between the socket and the HTTP protocol: what waits for slow clients, handshakes, and ends."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import time
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from registry.flowcontrol.interruption import WHEN_GONE
from registry.http.serving import connection as module
from registry.http.serving.acceptor import HANDSHAKE_SECONDS
from registry.http.serving.connection import WRITTEN_BYTES, ClientConnection
from registry.http.serving.protocol import Protocol
from registry.http.serving.tls import ensure_certificates, server_context
from registry.http.serving.tls_session import PIECE_BYTES, TlsSession
from registry.tasks import running
from tests.api.client import eventually
from tests.http.acceptors import accepting
from tests.http.loops import on_asyncio, on_uvloop
from tests.http.streams import POST, REQUEST, hello
from tests.http.tls_client import Client, PlainClient

LONG = bytes(range(256)) * 40_000
HANDSHAKES = 48
UPLOADS = 48
ENDS = 200
SHORT = b"short"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    made = ensure_certificates(tmp_path_factory.mktemp("certificates"), "127.0.0.1", ())
    return server_context(made.certificate, made.key)


def connected(port: int) -> Client:
    client = Client(port)
    client.shake_hands()
    return client


def received(client: Client | PlainClient) -> bytes:
    """Everything until the server closes the connection."""
    client.socket.settimeout(30)
    texts = []
    with contextlib.suppress(ssl.SSLZeroReturnError, ssl.SSLEOFError):
        while text := client.receive():
            texts.append(text)
    return b"".join(texts)


async def long_answer(scope: dict[str, Any], receive: Any, send: Any) -> None:
    body = SHORT + LONG + SHORT
    head = [(b"content-length", b"%d" % len(body)), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    await send({"type": "http.response.body", "body": body})


async def with_a_waiting_answer(port: int, references: list[weakref.ref[Protocol]]) -> Client:
    """A client that does not read its long answer."""
    client = await asyncio.to_thread(connected, port)
    await asyncio.to_thread(client.send, client.records(REQUEST))

    async def waits() -> bool:
        protocol = references[0]()
        return protocol is not None and protocol.transport.get_write_buffer_size() > len(LONG) // 4

    await eventually(waits)
    return client


@pytest.mark.parametrize("run", [on_asyncio, on_uvloop])
def test_what_waits_for_a_slow_client_is_not_encrypted_yet(run: Callable[[Any], None], server: ssl.SSLContext) -> None:
    """And it arrives in order, before the end of the connection."""

    async def read_slowly() -> None:
        references: list[weakref.ref[Protocol]] = []
        # What waits counts as further connections.
        async with accepting(10_000, server, long_answer, references) as (_, port):
            client = await with_a_waiting_answer(port, references)
            protocol = references[0]()
            assert protocol is not None
            connection = protocol.transport
            assert isinstance(connection, ClientConnection)
            assert connection._transport is not None
            assert connection._transport.get_write_buffer_size() <= WRITTEN_BYTES + 2 * PIECE_BYTES
            assert connection.is_closing()
            del protocol, connection
            text = await asyncio.to_thread(received, client)
            assert text.partition(b"\r\n\r\n")[2] == SHORT + LONG + SHORT
            client.socket.close()

    run(read_slowly)


@pytest.mark.parametrize("kind", [Client, PlainClient])
@pytest.mark.parametrize("run", [on_asyncio, on_uvloop])
def test_a_refused_client_that_goes_on_sending_receives_the_refusal(
    run: Callable[[Any], None], kind: type[Client | PlainClient], server: ssl.SSLContext
) -> None:
    """A socket that is closed while data is unread resets the connection, and what was sent is lost."""

    def send_much(port: int) -> bytes:
        client = kind(port)
        client.shake_hands()
        client.send(client.records(b"GET / HTTP/1.1\r\nhost: x\r\na: "))
        for _ in range(50):
            client.send(client.records(b"b" * 10_000))
            time.sleep(0.002)
        text = received(client)
        client.socket.close()
        return text

    async def refused() -> None:
        async with accepting(10, server if kind is Client else None) as (_, port):
            text = await asyncio.to_thread(send_much, port)
            assert text.startswith(b"HTTP/1.1 431 ")

    run(refused)


@pytest.mark.parametrize("kind", [Client, PlainClient])
async def test_a_refused_client_that_never_ends_is_left(
    kind: type[Client | PlainClient], server: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GOODBYE_SECONDS", 0.2)
    async with accepting(10, server if kind is Client else None) as (acceptor, port):

        def refused() -> Client | PlainClient:
            client = kind(port)
            client.shake_hands()
            client.send(client.records(b"nonsense\r\n\r\n"))
            return client

        client = await asyncio.to_thread(refused)
        assert (await asyncio.to_thread(client.receive)).startswith(b"HTTP/1.1 400 ")

        async def is_left() -> bool:
            return acceptor.shares.count == 0

        await eventually(is_left)
        client.socket.close()


async def test_a_failed_handshake_says_why(server: ssl.SSLContext) -> None:
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    old.set_ciphers("AES128-GCM-SHA256")  # without forward secrecy
    async with accepting(10, server) as (_, port):

        def fail() -> str:
            with pytest.raises(ssl.SSLError) as raised, socket.create_connection(("127.0.0.1", port)) as plain:
                old.wrap_socket(plain)
            return str(raised.value)

        assert "HANDSHAKE_FAILURE" in await asyncio.to_thread(fail)


@pytest.mark.parametrize("run", [on_asyncio, on_uvloop])
def test_a_broken_record_ends_the_connection_with_an_alert(run: Callable[[Any], None], server: ssl.SSLContext) -> None:
    async def broken() -> None:
        async with accepting(10, server) as (acceptor, port):

            def send() -> None:
                client = connected(port)
                client.send(client.records(REQUEST))
                assert client.receive().startswith(b"HTTP/1.1 200 ")
                client.send(b"\x17\x03\x03\x00\x20" + b"x" * 32)
                with pytest.raises(ssl.SSLError, match="BAD_RECORD_MAC"):
                    client.receive()
                client.socket.close()

            await asyncio.to_thread(send)

            async def is_over() -> bool:
                return acceptor.shares.count == 0

            await eventually(is_over)

    run(broken)


@pytest.mark.parametrize("run", [on_asyncio, on_uvloop])
def test_what_was_sent_before_the_end_is_received(run: Callable[[Any], None], server: ssl.SSLContext) -> None:
    """Even if it has to wait for its turn."""
    bodies: list[int] = []

    async def count(scope: dict[str, Any], receive: Any, send: Any) -> None:
        length, kind = 0, "http.request"
        while kind == "http.request":
            message = await receive()
            kind = message["type"]
            length += len(message.get("body", b""))
            if kind == "http.request" and not message.get("more_body"):
                bodies.append(length)
                break
        await hello(scope, receive, send)

    async def leave() -> None:
        async with accepting(100, server, count) as (_, port):
            clients = [await asyncio.to_thread(connected, port) for _ in range(16)]
            for client in clients:
                client.send(client.records(POST + b"content-length: 60000\r\n\r\n", *[b"x" * 15_000] * 4))
                client.socket.shutdown(socket.SHUT_WR)

            async def all_came() -> bool:
                return len(bodies) == len(clients)

            await eventually(all_came)
            for client in clients:
                client.socket.close()
        assert set(bodies) == {60_000}

    run(leave)


@pytest.mark.parametrize("run", [on_asyncio, on_uvloop])
def test_handshakes_leave_the_loop_to_others(
    run: Callable[[Any], None], server: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few begin in each iteration, also when thousands of clients come at once."""
    begun = 0
    at_once = TlsSession.shake_hands

    def shake_hands(self: TlsSession, received: bytes) -> bool:
        nonlocal begun
        begun += 1
        until = time.perf_counter() + 0.001
        while time.perf_counter() < until:
            pass
        return at_once(self, received)

    monkeypatch.setattr(TlsSession, "shake_hands", shake_hands)

    async def come() -> None:
        async with accepting(1000, server) as (_, port):
            clients = []
            for _ in range(HANDSHAKES):
                client = await asyncio.to_thread(Client, port)
                clients.append((client, client.first()))
            for client, text in clients:
                client.socket.send(text)
            most = 0
            while begun < HANDSHAKES:
                before = begun
                await asyncio.sleep(0)
                most = max(most, begun - before)
            for client, _ in clients:
                client.socket.close()
            # Two for those that come, and two for those that wait; where other work is long, more.
            assert most <= 8

    run(come)


@pytest.mark.parametrize("run", [on_asyncio, on_uvloop])
def test_a_request_does_not_wait_for_the_bodies_of_others(
    run: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    at_once = Protocol.data_received

    def data_received(self: Protocol, data: bytes) -> None:
        order.append("body" if self.receives_body else "head")
        until = time.perf_counter() + (0.001 if self.receives_body else 0)
        while time.perf_counter() < until:
            pass
        at_once(self, data)

    monkeypatch.setattr(Protocol, "data_received", data_received)

    async def upload() -> None:
        async with accepting(1000) as (_, port):
            clients = [PlainClient(port) for _ in range(UPLOADS + 1)]
            for client in clients[1:]:
                client.send(POST + b"content-length: 10000\r\n\r\nbegun")

            async def uploads_wait() -> bool:
                return len(order) == UPLOADS

            await eventually(uploads_wait)
            order.clear()
            for client in clients[1:]:
                client.send(b"more")
            clients[0].send(REQUEST)

            async def all_came() -> bool:
                return len(order) == UPLOADS + 1

            await eventually(all_came)
            for client in clients:
                client.socket.close()
            # Bodies of an iteration: two milliseconds of those that come, and as many of those that wait.
            assert order.index("head") <= 8

    run(upload)


@pytest.mark.parametrize("run", [on_asyncio, on_uvloop])
def test_few_requests_are_cancelled_at_a_time(run: Callable[[Any], None]) -> None:
    """Two thousand watches whose connections ended together held the event loop for a fifth of a second."""
    begun = iteration = 0
    ended: list[int] = []

    async def wait(scope: dict[str, Any], receive: Any, send: Any) -> None:
        nonlocal begun
        begun += 1
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(iteration)

    async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
        task = asyncio.current_task()
        assert task is not None
        scope[WHEN_GONE](task.cancel)
        await wait(scope, receive, send)

    async def count() -> None:
        nonlocal iteration
        while True:
            iteration += 1
            await asyncio.sleep(0)

    async def all_begun() -> bool:
        return begun == ENDS

    async def all_ended() -> bool:
        return len(ended) == ENDS

    async def end_together() -> None:
        async with accepting(1000, application=application) as (_, port):
            clients = [PlainClient(port) for _ in range(ENDS)]
            for client in clients:
                client.send(REQUEST)
            await eventually(all_begun)
            async with running(count(), "the iterations of the event loop"):
                await asyncio.sleep(0.1)  # what has just begun is over
                for client in clients:
                    client.socket.close()
                await eventually(all_ended)
            assert max(Counter(ended).values()) <= 2 * module._CANCELLED_AT_ONCE

    run(end_together)


@pytest.mark.parametrize("run", [on_asyncio, on_uvloop])
def test_few_connections_are_closed_at_a_time(run: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Two thousand idle connections that their client closed together held the event loop for 0.07 s."""
    iteration = 0
    lost: list[int] = []
    lose = ClientConnection.connection_lost

    def connection_lost(connection: ClientConnection, error: Exception | None) -> None:
        lost.append(iteration)
        lose(connection, error)

    monkeypatch.setattr(ClientConnection, "connection_lost", connection_lost)

    async def count() -> None:
        nonlocal iteration
        while True:
            iteration += 1
            await asyncio.sleep(0)

    async def close_together() -> None:
        async with accepting(1000) as (acceptor, port):
            clients = [PlainClient(port) for _ in range(ENDS)]

            async def are_open() -> bool:
                return acceptor.shares.count == ENDS

            async def are_lost() -> bool:
                return len(lost) == ENDS

            await eventually(are_open)
            async with running(count(), "the iterations of the event loop"):
                for client in clients:
                    client.socket.close()
                await eventually(are_lost)
            assert max(Counter(lost).values()) <= 2 * module._CLOSED_AT_ONCE

    run(close_together)


def test_data_that_arrives_with_the_end_of_the_handshake_is_received(server: ssl.SSLContext) -> None:
    async def at_once() -> None:
        async with accepting(10, server) as (_, port):

            def send() -> bytes:
                client = Client(port)
                client.send(client.first())
                client.take_answer()
                client.send(client.records(REQUEST))  # with the Finished of the handshake
                text = client.receive()
                client.socket.close()
                return text

            assert (await asyncio.to_thread(send)).startswith(b"HTTP/1.1 200 ")

    on_uvloop(at_once)


def test_a_session_keeps_no_more_than_a_piece(server: ssl.SSLContext) -> None:
    """Pure: two sessions talk to each other."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    client, session = context.wrap_bio(incoming, outgoing), TlsSession(server)
    for _ in range(3):
        with contextlib.suppress(ssl.SSLWantReadError):
            client.do_handshake()
        session.shake_hands(outgoing.read())
        incoming.write(session.take_output())
    text = bytes(range(256)) * 300
    client.write(text)
    sent = outgoing.read()
    parts = [session.decrypt(sent[i : i + 1000]) for i in range(0, len(sent), 1000)]
    assert b"".join(parts) == text
    assert max(map(len, parts)) <= PIECE_BYTES
    incoming.write(session.encrypt(text[:PIECE_BYTES]))
    assert client.read(PIECE_BYTES) == text[:PIECE_BYTES]
    client.write(b"last")
    with contextlib.suppress(ssl.SSLWantReadError):
        client.unwrap()
    assert (session.decrypt(outgoing.read()), session.has_ended) == (b"last", True)
    incoming.write(session.close())
    client.unwrap()


@pytest.mark.parametrize("run", [on_asyncio, on_uvloop])
def test_a_connection_may_be_closed_again_and_again(run: Callable[[Any], None], server: ssl.SSLContext) -> None:
    references: list[weakref.ref[Protocol]] = []

    async def close() -> None:
        async with accepting(10, server, references=references) as (acceptor, port):
            client = await asyncio.to_thread(connected, port)
            protocol = references[0]()
            assert protocol is not None
            connection = protocol.transport
            connection.abort()
            connection.close()
            connection.write(b"too late")
            assert connection.is_closing()

            async def is_lost() -> bool:
                return acceptor.shares.count == 0

            await eventually(is_lost)
            connection.close()
            connection.abort()
            connection.resume_reading()
            assert (connection.is_closing(), connection.get_write_buffer_size()) == (True, 0)
            client.socket.close()

    run(close)


@pytest.mark.parametrize("run", [on_asyncio, on_uvloop])
def test_a_client_that_leaves_in_its_handshake_is_not_waited_for(
    run: Callable[[Any], None], server: ssl.SSLContext
) -> None:
    async def leave() -> None:
        async with accepting(1000, server) as (acceptor, port):
            clients = [await asyncio.to_thread(Client, port) for _ in range(HANDSHAKES)]
            for client in clients:
                client.socket.send(client.first())
                client.socket.shutdown(socket.SHUT_WR)

            async def are_gone() -> bool:
                return acceptor.shares.count == 0

            async with asyncio.timeout(HANDSHAKE_SECONDS / 2):
                await eventually(are_gone)
            for client in clients:
                client.socket.close()

    run(leave)


@pytest.mark.parametrize("run", [on_asyncio, on_uvloop])
def test_a_client_that_asks_for_new_keys_has_to_read_them(
    run: Callable[[Any], None], server: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python's clients cannot ask: so each read is answered as if they had."""
    decrypt = TlsSession.decrypt
    asked = 0

    def as_if_asked(self: TlsSession, received: bytes) -> bytes:
        nonlocal asked
        asked += 1
        self._outgoing.write(b"k" * 64)
        return decrypt(self, received)

    async def ask() -> None:
        references: list[weakref.ref[Protocol]] = []
        async with accepting(10_000, server, long_answer, references) as (_, port):
            client = await with_a_waiting_answer(port, references)
            monkeypatch.setattr(TlsSession, "decrypt", as_if_asked)
            for _ in range(50):
                client.socket.send(client.records(b" "))
                await asyncio.sleep(0.002)
            assert asked == 1
            client.socket.close()

    run(ask)
