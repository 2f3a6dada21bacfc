"""Long bodies on many TLS connections at once: each iteration of the event loop reads a few of them."""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from registry.http.serving.connection_reader import LONG_BYTES, LONG_READS_IN_A_ROW
from registry.http.serving.protocol import Protocol
from registry.http.serving.tls import ensure_certificates, server_context
from tests.http.acceptors import accepting
from tests.http.loops import on_asyncio, on_uvloop
from tests.http.streams import POST, answer

CLIENTS = 64
BODY = b"x" * 600_000


@pytest.mark.parametrize("run", [on_asyncio, on_uvloop])
def test_an_iteration_reads_a_few_long_uploads(
    run: Callable[[Any], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them took 0.1 ms of an iteration: with hundreds, a get of another tenant took 30 to 50 ms."""
    reads: Counter[int] = Counter()
    iteration = 0
    received = Protocol.data_received

    def count(self: Protocol, data: bytes) -> None:
        if len(data) >= LONG_BYTES:
            reads[iteration] += 1
        received(self, data)

    monkeypatch.setattr(Protocol, "data_received", count)

    async def upload(port: int, context: ssl.SSLContext, all_are_connected: asyncio.Barrier) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, ssl_handshake_timeout=300)
        await all_are_connected.wait()
        writer.write(POST + b"content-length: %d\r\n\r\n" % len(BODY) + BODY)
        assert await answer(reader) == (200, str(len(BODY)).encode())
        writer.close()

    async def attacked() -> None:
        nonlocal iteration
        made = ensure_certificates(tmp_path, "127.0.0.1", ())
        trusting = ssl.create_default_context(cafile=str(made.authority))
        async with accepting(1000, server_context(made.certificate, made.key)) as (_, port):
            barrier = asyncio.Barrier(CLIENTS)
            uploads = asyncio.gather(*(upload(port, trusting, barrier) for _ in range(CLIENTS)))
            while not uploads.done():
                await asyncio.sleep(0)
                iteration += 1
            await uploads

    run(attacked)
    assert sum(reads.values()) > CLIENTS
    # The first reads of a connection are small. A round has those that waited, and those that begin.
    assert sum(count > 2 * LONG_READS_IN_A_ROW for count in reads.values()) <= 4
