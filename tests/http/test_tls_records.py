"""TLS records of one byte, on many connections at once: the event loop serves others meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from registry.flowcontrol.loop_share import LoopShare, ReadWindow
from registry.http import responses, watch_stream
from registry.http.serving.tls import ensure_certificates, server_context
from registry.http.serving.tls_session import PIECE_BYTES
from tests.http.acceptors import accepting
from tests.http.loops import on_asyncio, on_uvloop
from tests.http.streams import POST
from tests.http.tls_client import Client

CLIENTS = 32
RECORDS = 5_000


@pytest.mark.parametrize("run", [on_asyncio, on_uvloop])
def test_tiny_records_leave_the_loop_to_others(run: Callable[[Any], None], tmp_path: Path) -> None:
    """32 clients without a token kept it for 0.2 seconds, and more of them for longer."""

    async def attacked() -> None:
        made = ensure_certificates(tmp_path, "127.0.0.1", ())
        context = server_context(made.certificate, made.key)
        async with accepting(1000, context) as (_, port):
            clients, blows = [], []
            for _ in range(CLIENTS):
                client = await asyncio.to_thread(Client, port)
                await asyncio.to_thread(client.shake_hands)
                clients.append(client)
                head = POST + b"content-length: %d\r\n\r\n" % RECORDS
                blows.append(client.records(head, *[b"x"] * RECORDS))
            for client, blow in zip(clients, blows, strict=True):
                client.socket.setblocking(False)
                client.socket.send(blow)  # as much as the system takes
            longest, until = 0.0, time.monotonic() + 1.5
            while time.monotonic() < until:
                began = time.thread_time()
                await asyncio.sleep(0)
                longest = max(longest, time.thread_time() - began)
            for client in clients:
                client.socket.close()
        assert longest < 0.07

    run(attacked)


@pytest.mark.parametrize("run", [on_asyncio, on_uvloop])
def test_a_request_in_tiny_records_is_answered(run: Callable[[Any], None], tmp_path: Path) -> None:
    async def slow() -> None:
        made = ensure_certificates(tmp_path, "127.0.0.1", ())
        context = server_context(made.certificate, made.key)
        async with accepting(10, context) as (_, port):
            client = await asyncio.to_thread(Client, port)
            await asyncio.to_thread(client.shake_hands)
            for length in (20_000, 3):
                head = POST + b"content-length: %d\r\n\r\n" % length
                await asyncio.to_thread(client.send, client.records(head, *[b"x"] * length))
                async with asyncio.timeout(60):
                    answered = await asyncio.to_thread(client.receive)
                assert answered.startswith(b"HTTP/1.1 200")
                assert answered.endswith(b"\r\n\r\n%d" % length)
            client.socket.close()

    run(slow)


@pytest.mark.parametrize("part", [responses.PART_BYTES, watch_stream.PART_BYTES], ids=["a list", "a watch"])
def test_a_part_of_an_answer_fills_its_records(part: int) -> None:
    """A further record for the last nine bytes of each chunk was a fifth of all records of a list."""
    chunk = len(b"%x\r\n" % part) + part + len(b"\r\n")
    assert chunk // PIECE_BYTES + 1 == round(chunk / PIECE_BYTES), "records"
    assert -chunk % PIECE_BYTES < 32, "bytes that a record lacks"


def test_a_window_grows_while_long_records_fill_it() -> None:
    share = LoopShare()
    window, sizes = ReadWindow(share, 1024, 16_384), list[int]()
    for count in (4096, 8192, 16_384, 16_384, 10):
        sizes.append(window.begin())
        assert not window.end(count, count, 0.0001)
    assert sizes == [4096, 8192, 16_384, 16_384, 16_384]
    assert window.begin() == 4096


def test_a_window_is_small_while_the_share_is_used_up() -> None:
    share = LoopShare()
    window = ReadWindow(share, 1024, 16_384)
    share.charge(10)
    assert window.begin() == 1024
    window.take_turn()
    assert window.begin() == 4096
    assert window.begin() == 1024


def test_small_records_are_charged() -> None:
    share = LoopShare()
    window = ReadWindow(share, 1024, 16_384)
    window.begin()
    assert window.end(4096, 180, 0.02)
    assert not share.is_free
    window.take_turn()
    assert window.begin() == 1024
