"""Long bodies on many connections at once: each iteration of the event loop reads a few of them."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from registry.http.serving.protocol import Protocol
from registry.http.serving.tls import ensure_certificates, server_context
from registry.http.serving.tls_session import PIECE_BYTES
from tests.http.acceptors import accepting
from tests.http.loops import on_asyncio, on_uvloop
from tests.http.streams import POST, answer

CLIENTS = 64
BODY = b"x" * 100_000
# What each part of a body takes here; all of them together may take 4 ms of an iteration.
PART_SECONDS = 0.001


@pytest.mark.parametrize("uses_tls", [False, True], ids=["plain", "TLS"])
@pytest.mark.parametrize("run", [on_asyncio, on_uvloop])
def test_an_iteration_reads_a_few_long_uploads(
    run: Callable[[Any], None], uses_tls: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them took 0.1 ms of an iteration: with hundreds, a get of another tenant took 30 to 50 ms."""
    reads: Counter[int] = Counter()
    iteration = 0
    received = Protocol.data_received

    def count(self: Protocol, data: bytes) -> None:
        assert len(data) <= 2 * PIECE_BYTES
        if len(data) > 1000:
            reads[iteration] += 1
            until = time.perf_counter() + PART_SECONDS
            while time.perf_counter() < until:
                pass
        received(self, data)

    monkeypatch.setattr(Protocol, "data_received", count)

    async def upload(port: int, context: ssl.SSLContext | None, all_are_connected: asyncio.Barrier) -> None:
        seconds = None if context is None else 300
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, ssl_handshake_timeout=seconds)
        await all_are_connected.wait()
        writer.write(POST + b"content-length: %d\r\n\r\n" % len(BODY) + BODY)
        assert await answer(reader) == (200, str(len(BODY)).encode())
        writer.close()

    async def attacked() -> None:
        nonlocal iteration
        made = ensure_certificates(tmp_path, "127.0.0.1", ())
        trusting = ssl.create_default_context(cafile=str(made.authority)) if uses_tls else None
        async with accepting(1000, server_context(made.certificate, made.key) if uses_tls else None) as (_, port):
            barrier = asyncio.Barrier(CLIENTS)
            uploads = asyncio.gather(*(upload(port, trusting, barrier) for _ in range(CLIENTS)))
            while not uploads.done():
                await asyncio.sleep(0)
                iteration += 1
            await uploads

    run(attacked)
    assert sum(reads.values()) > CLIENTS
    # More where the clients, which run in the same loop, take long themselves.
    assert sum(count > 10 for count in reads.values()) <= len(reads) / 10
