"""Limits and responses of a connection, on real sockets."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from registry.flowcontrol.interruption import WHEN_GONE
from registry.http.serving import timed_protocol
from registry.http.serving.protocol import HEAD_LIMIT_BYTES, Protocol
from tests.http.streams import PATIENCE_SECONDS, REQUEST, answer, connection, ended, hello


async def test_one_connection_serves_many_requests() -> None:
    async with connection() as (reader, writer):
        for size in (0, 1, 200_000):
            writer.write(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % size + b"x" * size)
            assert await answer(reader) == (200, str(size).encode())


async def test_pipelined_requests_are_answered_in_order() -> None:
    async with connection() as (reader, writer):
        writer.write(REQUEST * 3)
        assert [await answer(reader) for _ in range(3)] == [(200, b"0")] * 3


@pytest.mark.parametrize(
    "first, then",
    [
        (b"", b""),
        (b"GET / HTT", b""),
        (b"GET / HTTP/1.1\r\nhost: x\r\n", b""),
        (REQUEST, b"GET / HTTP/1.1\r\n"),
        (REQUEST, b"\r\n"),
    ],
    ids=["nothing", "half a line", "half a head", "half a second head", "an empty line after an answer"],
)
async def test_a_connection_without_a_head_is_closed(
    first: bytes, then: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit is short for a head that does not come, and long for the one that does."""
    if first != REQUEST:
        monkeypatch.setattr(timed_protocol, "HEAD_SECONDS", 0.1)
    async with connection() as (reader, writer):
        writer.write(first)
        if first == REQUEST:
            assert await answer(reader) == (200, b"0")
            monkeypatch.setattr(timed_protocol, "HEAD_SECONDS", 0.1)
            writer.write(then)
        assert await ended(reader) == b""


async def test_trickling_bytes_do_not_extend_the_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timed_protocol, "HEAD_SECONDS", 0.1)
    async with connection() as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\nx: ")
        finished = asyncio.create_task(ended(reader))
        for _ in range(500):
            writer.write(b"y")
            if (await asyncio.wait({finished}, timeout=0.01))[0]:
                break
        assert finished.done()
        assert await finished == b""


async def test_a_slow_body_is_not_a_late_head(monkeypatch: pytest.MonkeyPatch) -> None:
    """A first request arms the timer of heads; when its head has come, nothing is left that could end it."""
    armed: list[asyncio.TimerHandle | None] = []
    made, late = Protocol.connection_made, asyncio.Event()

    def connection_made(self: Protocol, transport: asyncio.Transport) -> None:
        made(self, transport)
        armed.append(self._head_timer)

    async def waits(scope: dict[str, Any], receive: Any, send: Any) -> None:
        late.set()
        await hello(scope, receive, send)

    monkeypatch.setattr(Protocol, "connection_made", connection_made)
    async with connection(waits) as (reader, writer):
        writer.write(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n")
        await asyncio.wait_for(late.wait(), PATIENCE_SECONDS)
        [timer] = armed
        assert timer is not None
        assert timer.cancelled()
        writer.write(b"ab")
        assert await answer(reader) == (200, b"2")


@pytest.mark.parametrize("size, status", [(HEAD_LIMIT_BYTES - 1000, 200), (HEAD_LIMIT_BYTES * 3, 431)])
async def test_the_size_of_a_head(size: int, status: int) -> None:
    async with connection() as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n")
        writer.write(b"x: " + b"y" * size + b"\r\n\r\n")
        try:
            assert (await answer(reader))[0] == status
        except ConnectionError:
            assert status == 431, "the rest of what was sent may reset the connection before the answer is read"
        if status == 431:
            assert await ended(reader) == b""


@pytest.mark.parametrize(
    "text",
    [
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"GET\r\n\r\n",
        b"GET / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET http:/// HTTP/1.1\r\n\r\n",
    ],
    ids=["TLS", "no target", "two lengths", "length and chunks", "bytes in the path", "no host in the target"],
)
async def test_malformed_requests_are_refused(text: bytes) -> None:
    async with connection() as (reader, writer):
        writer.write(text)
        assert (await answer(reader))[0] == 400
        assert await ended(reader) == b""


async def test_the_application_is_notified_of_a_disconnect() -> None:
    begun, noticed = asyncio.Event(), asyncio.Event()

    async def stream(scope: dict[str, Any], receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x", "more_body": True})
        begun.set()
        while (await receive())["type"] != "http.disconnect":
            pass
        # A late answer goes nowhere and raises nothing.
        await send({"type": "http.response.body", "body": b"x", "more_body": False})
        noticed.set()

    async with connection(stream) as (_, writer):
        writer.write(REQUEST)
        await asyncio.wait_for(begun.wait(), PATIENCE_SECONDS)
        writer.transport.abort()
        await asyncio.wait_for(noticed.wait(), PATIENCE_SECONDS)


async def test_a_disconnect_before_the_response() -> None:
    begun, noticed = asyncio.Event(), asyncio.Event()

    async def late(scope: dict[str, Any], receive: Any, send: Any) -> None:
        await receive()
        begun.set()
        assert (await receive())["type"] == "http.disconnect"
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"1")]})
        await send({"type": "http.response.body", "body": b"x"})
        noticed.set()

    async with connection(late) as (_, writer):
        writer.write(REQUEST)
        await asyncio.wait_for(begun.wait(), PATIENCE_SECONDS)
        writer.transport.abort()
        await asyncio.wait_for(noticed.wait(), PATIENCE_SECONDS)


@pytest.mark.parametrize("value", [b"a\r\nset-cookie: b", b"a\nb", b"a\0b"], ids=["CRLF", "LF", "NUL"])
async def test_headers_cannot_be_forged(value: bytes) -> None:
    async def forging(scope: dict[str, Any], receive: Any, send: Any) -> None:
        headers = [(b"content-length", b"0"), (b"x", value)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    async with connection(forging) as (reader, writer):
        writer.write(REQUEST)
        assert b"set-cookie" not in await ended(reader)


@pytest.mark.parametrize("requests", [1, 3], ids=["one request", "with two more behind it"])
async def test_what_the_application_wants_called_at_a_disconnect(requests: int) -> None:
    begun, noticed = asyncio.Event(), asyncio.Event()
    answered: list[str] = []

    async def waiting(scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["path"] == "/":
            scope[WHEN_GONE](lambda: answered.append("too late"))
            await hello(scope, receive, send)
            return
        scope[WHEN_GONE](noticed.set)
        begun.set()
        await noticed.wait()

    async with connection(waiting) as (reader, writer):
        writer.write(REQUEST + REQUEST.replace(b" / ", b" /waits ") * requests)
        await answer(reader)
        await asyncio.wait_for(begun.wait(), PATIENCE_SECONDS)
        writer.transport.abort()
        await asyncio.wait_for(noticed.wait(), PATIENCE_SECONDS)
        assert not answered


@pytest.mark.parametrize("length", [5, 100_000])
async def test_an_answer_to_head_has_no_body(length: int) -> None:
    """An application may leave it to the server to drop the body, which a client would take for the next answer."""

    async def sends_a_body(scope: dict[str, Any], receive: Any, send: Any) -> None:
        headers = [(b"content-length", b"%d" % length)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"x" * length})

    async with connection(sends_a_body) as (reader, writer):
        writer.write(b"HEAD / HTTP/1.1\r\nhost: x\r\n\r\n" + REQUEST)
        for _ in range(2):
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 OK\r\n")
            assert b"content-length: %d\r\n" % length in head
        assert await reader.readexactly(length) == b"x" * length
