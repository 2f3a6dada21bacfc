"""A connection that is used again has nothing of the answer before."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest

from registry.webhooks.egress import EgressPolicy
from registry.webhooks.https import HttpsClient
from registry.webhooks.streaming import Connections, PooledServer
from tests.webhooks.hostile import certificates, serving


async def _answer_each(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers `GET /N` with N, in a body of always the same length."""
    while True:
        head = await reader.readuntil(b"\r\n\r\n")
        number = head.split(b" ")[1].lstrip(b"/")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n" + number.rjust(1000))
        await writer.drain()


@pytest.mark.parametrize("is_read", [False, True], ids=["left", "read"])
async def test_an_answer_that_is_not_read_is_dropped(tmp_path: Path, is_read: bool) -> None:
    """A client that disconnects, or an answer that is refused, leaves one that has arrived: the next request got it."""
    async with serving(certificates(tmp_path), _answer_each) as origin:
        https = HttpsClient(EgressPolicy(["127.0.0.0/8"]))
        connections = Connections(https.dialer)
        server = PooledServer(1, origin.origin, "", ssl.create_default_context(cadata=origin.ca))
        first = await connections.acquire(server)
        first.begin(b"GET /1 HTTP/1.1\r\n\r\n")
        await first.head()
        if is_read:
            assert await first.read() == b"1".rjust(1000)
        connections.release(server, first)
        second = await connections.acquire(server)
        assert (second is first) is is_read
        second.begin(b"GET /2 HTTP/1.1\r\n\r\n")
        await second.head()
        assert await second.read() == b"2".rjust(1000)
        connections.release(server, second)
        connections.close()
        await https.aclose()
