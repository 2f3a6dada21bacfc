"""Memory that one connection can occupy: heads, trailers, chunk extensions, pipelined requests."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from registry.http.serving import backlog, protocol
from registry.http.serving.backlog import BACKLOG
from registry.http.serving.tls_session import PIECE_BYTES
from tests.http.streams import POST, REQUEST, SECOND, Streams, answer, connection, ended, hello

CHUNKS = POST + b"transfer-encoding: chunked\r\n\r\n"
MIB = 1024 * 1024
# What a client sends in the tests below, and what may be kept of it meanwhile.
SENT_BYTES = 16 * MIB
KEPT_BYTES = 2 * MIB


class Growth:
    peak = 0


@contextlib.contextmanager
def growth() -> Iterator[Growth]:
    """The peak of what Python allocates in the block, beyond what it had."""
    found = Growth()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    try:
        yield found
    finally:
        found.peak = tracemalloc.get_traced_memory()[1] - before
        tracemalloc.stop()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - the server's state has no event
            await asyncio.sleep(0.01)


async def nothing_kept() -> None:
    """Returns when no connection keeps anything."""
    await until(lambda: BACKLOG.bytes == 0)


async def pour(streams: Streams, piece: bytes, total: int = SENT_BYTES) -> int:
    """Sends a piece again and again until the connection ends or so much has been sent; returns how much was."""
    reader, writer = streams
    sent = 0
    block = piece * max(1, 16384 // len(piece))
    with contextlib.suppress(ConnectionError):
        while sent < total and not reader.at_eof() and not writer.is_closing():
            writer.write(block)
            sent += len(block)
            async with asyncio.timeout(60):
                await writer.drain()
            await asyncio.sleep(0)
    return sent


ENDLESS: dict[str, tuple[bytes, bytes]] = {
    "trailers": (CHUNKS + b"0\r\n", b"a:\r\n"),
    "a long trailer": (CHUNKS + b"0\r\na: ", b"a"),
    "a long name of a trailer": (CHUNKS + b"0\r\n", b"a"),
    "a chunk extension": (CHUNKS + b"1;", b"a"),
    "a quoted chunk extension": (CHUNKS + b'1;a="', b"a"),
    "a chunk extension after a body": (CHUNKS + b"100\r\n" + b"x" * 256 + b"\r\n0;", b"a"),
    "chunk extensions": (CHUNKS, b"1;" + b"a" * 200 + b"\r\nx\r\n"),
    "chunks of a byte": (CHUNKS, b"1\r\nx\r\n"),
    "zeros before the size of a chunk": (CHUNKS, b"0"),
    "headers": (b"GET / HTTP/1.1\r\nhost: x\r\n", b"a:\r\n"),
    "a long header": (b"GET / HTTP/1.1\r\nhost: x\r\na: ", b"a"),
    "a long URL": (b"GET /", b"a"),
    "a long method": (b"", b"GET"),
}


@pytest.mark.parametrize("head, piece", ENDLESS.values(), ids=ENDLESS.keys())
async def test_endless_input_is_bounded(head: bytes, piece: bytes) -> None:
    with growth() as found:
        async with connection() as streams:
            streams[1].write(head)
            assert await pour(streams, piece) < SENT_BYTES
    assert found.peak < KEPT_BYTES


async def test_small_chunks_are_accepted() -> None:
    async with connection() as (reader, writer):
        count = backlog.FREE_CHUNKS - 1
        writer.write(CHUNKS + b"1\r\nx\r\n" * count + b"0\r\n\r\n" + SECOND)
        assert await answer(reader) == (200, b"%d" % count)
        assert await answer(reader) == (200, b"0")


async def test_chunks_of_some_size_may_be_many() -> None:
    size, count = backlog.SMALL_CHUNK_BYTES, 4 * backlog.FREE_CHUNKS
    async with connection() as (reader, writer):
        writer.write(CHUNKS + (b"%x\r\n" % size + b"x" * size + b"\r\n") * count + b"0\r\n\r\n")
        assert await answer(reader) == (200, b"%d" % (size * count))


async def test_chunks_are_counted() -> None:
    async with connection() as (reader, writer):
        writer.write(CHUNKS + b"1\r\nx\r\n" * (2 * backlog.FREE_CHUNKS))
        refusal = await reader.read()
        assert b" 400 " in refusal.splitlines()[0]
        assert b"chunked encoding has too many chunks" in refusal


async def test_trailers_are_not_passed_as_headers() -> None:
    seen: list[Any] = []

    async def note(scope: dict[str, Any], receive: Any, send: Any) -> None:
        seen.append(scope["headers"])
        await hello(scope, receive, send)

    async with connection(note) as (reader, writer):
        writer.write(CHUNKS + b"0\r\nimpersonate-user: root\r\n\r\n")
        assert await answer(reader) == (200, b"0")
        writer.write(CHUNKS)
        await until(lambda: len(seen) == 2)
        writer.write(b"0\r\nimpersonate-user: root\r\n\r\n")
        assert await answer(reader) == (200, b"0")
    assert [dict(headers).keys() for headers in seen] == [{b"host", b"transfer-encoding"}] * 2


async def test_pipelined_requests_are_bounded() -> None:
    """The first is not answered: those behind it wait, and only so many."""

    async def never(scope: dict[str, Any], receive: Any, send: Any) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    with growth() as found:
        async with connection(never) as (reader, writer):
            writer.write(REQUEST * 20_000)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await reader.read(1)
    assert found.peak < KEPT_BYTES


async def test_pipelined_requests_within_the_limit_are_answered_before_the_close() -> None:
    async with connection() as (reader, writer):
        writer.write(REQUEST * (protocol.PIPELINE_LIMIT + 10))
        answers = (await ended(reader)).split(b"HTTP/1.1 ")[1:]
    assert [text[:3] for text in answers] == [b"200"] * (len(answers) - 1) + [b"429"]
    assert len(answers) > protocol.PIPELINE_LIMIT


async def test_answers_come_in_the_order_of_the_requests() -> None:
    async with connection() as (reader, writer):
        writer.write(REQUEST * 2 + b"GET / HTTP/1.1\r\n\r\n" + SECOND)
        answers = (await ended(reader)).split(b"HTTP/1.1 ")[1:]
    assert [text[:3] for text in answers] == [b"200", b"200", b"400"]


async def test_an_idle_connection_keeps_nothing_of_the_last_request() -> None:
    """A refusal does not read the body, which had come already. It is not left to the garbage collector."""

    async def refuses(scope: dict[str, Any], receive: Any, send: Any) -> None:
        await asyncio.sleep(0.05)  # The body comes meanwhile; nothing reports that to the application.
        await send({"type": "http.response.start", "status": 403, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    gc.disable()
    tracemalloc.start()
    try:
        async with contextlib.AsyncExitStack() as stack:
            before = tracemalloc.get_traced_memory()[0]
            for _ in range(20):
                reader, writer = await stack.enter_async_context(connection(refuses))
                writer.write(POST + b"x: " + b"y" * 100_000 + b"\r\ncontent-length: 60000\r\n\r\n" + b"x" * 60_000)
                assert (await answer(reader))[0] == 403
                del reader, writer
            await nothing_kept()
            assert tracemalloc.get_traced_memory()[0] - before < 20 * 50_000
    finally:
        tracemalloc.stop()
        gc.enable()


async def test_connections_share_one_limit_for_pending_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit those that keep much are refused, and small requests go on."""
    monkeypatch.setattr(backlog, "LIMIT_BYTES", 4 * 50_000)
    async with contextlib.AsyncExitStack() as stack:
        kept = []
        for _ in range(8):
            streams = await stack.enter_async_context(connection())
            streams[1].write(b"GET / HTTP/1.1\r\nhost: x\r\nx: " + b"y" * 50_000)
            kept.append(asyncio.create_task(ended(streams[0])))
        await until(lambda: sum(task.done() for task in kept) >= 4)
        async with connection() as (reader, writer):
            writer.write(REQUEST)
            assert await answer(reader) == (200, b"0")
        assert sum(task.done() for task in kept) <= 5
        for task in kept:
            if task.done():
                assert b" 429 " in task.result().splitlines()[0] or task.result() == b""
            task.cancel()
        await asyncio.gather(*kept, return_exceptions=True)
    await nothing_kept()


async def test_a_request_that_waits_keeps_little_of_its_body() -> None:
    """The rest stays with the client until the application asks for it."""
    begins, kept = asyncio.Event(), backlog.UNASKED_BODY_BYTES + PIECE_BYTES + 1024

    async def waits(scope: dict[str, Any], receive: Any, send: Any) -> None:
        await begins.wait()
        await hello(scope, receive, send)

    async with contextlib.AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(connection(waits)) for _ in range(4)]
        for _, writer in streams:
            writer.write(POST + b"content-length: 500000\r\n\r\n" + b"x" * 500_000)
        await until(lambda: BACKLOG.bytes > 4 * backlog.UNASKED_BODY_BYTES)
        for _ in range(20):
            await asyncio.sleep(0.01)
            assert BACKLOG.bytes <= 4 * kept
        begins.set()
        assert [await answer(reader) for reader, _ in streams] == [(200, b"500000")] * 4
        await nothing_kept()


async def test_bodies_are_read_slowly_where_heads_have_taken_the_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request of another client is served whatever others hold, though slowly."""
    monkeypatch.setattr(backlog, "LIMIT_BYTES", 50_000)
    most = 0

    async def measured(scope: dict[str, Any], receive: Any, send: Any) -> None:
        async def receive_measured() -> Any:
            nonlocal most
            await asyncio.sleep(0.001)  # more comes meanwhile, if it is read
            message = await receive()
            most = max(most, len(message.get("body", b"")))
            return message

        await hello(scope, receive_measured, send)

    async with contextlib.AsyncExitStack() as stack:
        for _ in range(8):
            _, writer = await stack.enter_async_context(connection())
            writer.write(b"GET / HTTP/1.1\r\nhost: x\r\nx: " + b"y" * 12_000)
        await until(lambda: BACKLOG.bytes > backlog.LIMIT_BYTES)
        reader, writer = await stack.enter_async_context(connection(measured))
        writer.write(POST + b"content-length: 500000\r\n\r\n" + b"x" * 500_000)
        assert await answer(reader) == (200, b"500000")
        assert most <= backlog.UNASKED_BODY_BYTES + PIECE_BYTES
    await nothing_kept()


async def test_heads_that_are_unfinished_for_long_make_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backlog, "LIMIT_BYTES", 4 * 50_000)
    async with contextlib.AsyncExitStack() as stack:
        kept = []
        for _ in range(4):
            streams = await stack.enter_async_context(connection())
            streams[1].write(b"GET / HTTP/1.1\r\nhost: x\r\nx: " + b"y" * 48_000)
            kept.append(asyncio.create_task(ended(streams[0])))
            await until(lambda: BACKLOG.bytes > len(kept) * 47_000)
        async with connection() as (reader, writer):
            writer.write(b"GET / HTTP/1.1\r\nhost: x\r\nx: " + b"y" * 60_000 + b"\r\n\r\n")
            assert await answer(reader) == (200, b"0")
        assert b" 429 " in (await kept[0]).splitlines()[0]
        assert not kept[-1].done()
        for task in kept:
            task.cancel()
        await asyncio.gather(*kept, return_exceptions=True)
    await nothing_kept()
    assert not BACKLOG.refuse_oldest_head()


async def test_a_large_unread_body_closes_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuses(scope: dict[str, Any], receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 413, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    async with connection(refuses) as streams:
        streams[1].write(POST + b"content-length: 999999999\r\n\r\n")
        assert (await answer(streams[0]))[0] == 413
        assert await pour(streams, b"x") < SENT_BYTES


@pytest.mark.parametrize(
    "length, closes",
    [
        pytest.param(backlog.UNREAD_LIMIT_BYTES, False, id="is dropped"),
        pytest.param(backlog.UNREAD_LIMIT_BYTES + 1, True, id="ends the connection"),
    ],
)
async def test_an_answer_announces_that_its_connection_ends(length: int, closes: bool) -> None:
    async def refuses(scope: dict[str, Any], receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 413, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    async with connection(refuses) as (reader, writer):
        writer.write(POST + b"content-length: %d\r\n\r\n" % length)
        head = await reader.readuntil(b"\r\n\r\n")
        assert b" 413 " in head.splitlines()[0]
        assert (b"\r\nconnection: close\r\n" in head) is closes
        if not closes:
            writer.write(b"x" * length + POST + b"content-length: 0\r\n\r\n")
            assert b" 413 " in (await reader.readuntil(b"\r\n\r\n")).splitlines()[0]


async def test_a_body_that_stalls_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long before it would be too late for all of it; extensions of chunks are no progress."""
    monkeypatch.setattr(backlog, "BODY_STALL_SECONDS", 0.1)
    async with connection() as (reader, writer):
        writer.write(CHUNKS)

        async def trickle() -> None:
            with contextlib.suppress(ConnectionError):
                while True:
                    writer.write(b"1;" + b"a" * 10 + b"\r\na\r\n")
                    await writer.drain()
                    await asyncio.sleep(0.01)

        task = asyncio.create_task(trickle())
        seen = await ended(reader)
        await task
        assert seen == b"" or b" 408 " in seen.splitlines()[0]


@pytest.mark.parametrize("request_", [REQUEST[:-2], SECOND[:-2]], ids=["one", "another"])
async def test_upgrades_are_ignored(request_: bytes) -> None:
    """The request is answered as it is, and so is what comes after it."""
    upgrade = request_ + b"connection: upgrade, http2-settings\r\nupgrade: h2c\r\n\r\n"
    async with connection() as (reader, writer):
        writer.write(upgrade + upgrade + REQUEST)
        assert [await answer(reader) for _ in range(3)] == [(200, b"0")] * 3


async def test_the_body_of_an_upgrade_is_not_parsed_as_a_request() -> None:
    asked: list[str] = []

    async def note(scope: dict[str, Any], receive: Any, send: Any) -> None:
        asked.append(scope["path"])
        await hello(scope, receive, send)

    async with connection(note) as (reader, writer):
        writer.write(POST + b"connection: upgrade\r\nupgrade: h2c\r\ncontent-length: %d\r\n\r\n" % len(SECOND))
        await writer.drain()
        writer.write(SECOND)
        assert b" 400 " in (await ended(reader)).splitlines()[0]
    assert asked == []


async def test_a_client_that_leaves_ends_the_first_of_two_requests() -> None:
    begun, gone = asyncio.Event(), asyncio.Event()

    async def waits(scope: dict[str, Any], receive: Any, send: Any) -> None:
        begun.set()
        while (await receive())["type"] != "http.disconnect":
            pass
        gone.set()

    async with connection(waits) as (_, writer):
        writer.write(REQUEST * 2)
        async with asyncio.timeout(60):
            await begun.wait()
            writer.transport.abort()
            await gone.wait()
