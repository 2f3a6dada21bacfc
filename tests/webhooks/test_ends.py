"""What a server has sent before it ends its connection arrives, however slowly it is read."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop

from registry.flowcontrol import loop_share
from registry.flowcontrol.loop_share import LoopShare
from registry.webhooks.connection import Origin, Unreachable
from registry.webhooks.egress import EgressPolicy
from registry.webhooks.http1 import ConnectTimeouts, HttpConnection, connect
from registry.webhooks.https import HttpsClient
from registry.webhooks.streaming import Connections, PooledServer
from registry.webhooks.tls import TlsContexts
from tests.webhooks.hostile import Certificates, certificates

# More than the buffers between both programs.
DATA = bytes(range(256)) * 16 * 1024
HEADS = {
    "length": b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(DATA),
    "end": b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n",
    "tunnel": b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n",
}


@pytest.fixture(scope="module")
def trusted(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return certificates(tmp_path_factory.mktemp("tls"))


@contextlib.contextmanager
def sending(trusted: Certificates, data: bytes, *, tells_end: bool) -> Iterator[Origin]:
    """A server that answers its first connection with `data`, and closes it at once, as Go's does: with the alert of TLS
    that tells the end (`tells_end`), or without."""
    listener = socket.create_server(("127.0.0.1", 0))

    def run() -> None:
        accepted, _ = listener.accept()
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = trusted.context.wrap_bio(incoming, outgoing, server_side=True)

        def exchange(step: Callable[[], object]) -> None:
            while True:
                try:
                    step()
                    return
                except ssl.SSLWantReadError:
                    accepted.sendall(outgoing.read())
                    incoming.write(accepted.recv(65536))

        with accepted, contextlib.suppress(OSError):
            exchange(tls.do_handshake)
            exchange(lambda: tls.read(65536))
            for start in range(0, len(data), 65536):
                tls.write(data[start : start + 65536])
                accepted.sendall(outgoing.read())
            if tells_end:
                with contextlib.suppress(ssl.SSLWantReadError):
                    tls.unwrap()
                accepted.sendall(outgoing.read())

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield Origin("127.0.0.1", listener.getsockname()[1], trusted.ca)
    finally:
        listener.close()
        thread.join()


async def _read_all(connection: HttpConnection, pause_seconds: float) -> bytes:
    pieces = []
    while piece := await connection.read():
        pieces.append(piece)
        await asyncio.sleep(pause_seconds)
    return b"".join(pieces)


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("tells_end", [True, False], ids=["alert", "no alert"])
@pytest.mark.parametrize("kind", HEADS)
@pytest.mark.parametrize("pause_seconds", [0.0, 0.003], ids=["fast", "slow"])
def test_the_end_of_an_answer_arrives(
    trusted: Certificates,
    new_loop: Callable[[], asyncio.AbstractEventLoop],
    kind: str,
    tells_end: bool,
    pause_seconds: float,
) -> None:
    """The event loops dropped what was not decrypted when a connection ended: the last tens of kilobytes."""

    async def run(origin: Origin) -> bytes:
        https = HttpsClient(EgressPolicy(["127.0.0.0/8"]))
        connections = Connections(https.dialer)
        server = PooledServer(1, origin, "", ssl.create_default_context(cadata=trusted.ca))
        connection = await connections.acquire(server)
        try:
            async with asyncio.timeout(60):
                connection.begin(b"GET / HTTP/1.1\r\n\r\n")
                await connection.head()
                return await _read_all(connection, pause_seconds)
        finally:
            connections.release(server, connection)
            connections.close()
            await https.aclose()

    with (
        sending(trusted, HEADS[kind] + DATA, tells_end=tells_end) as origin,
        asyncio.Runner(loop_factory=new_loop) as r,
    ):
        assert r.run(run(origin)) == DATA


@contextlib.contextmanager
def resetting(trusted: Certificates, *, after_handshake: bool) -> Iterator[Origin]:
    """A server that resets each connection, either as soon as it is accepted or as soon as TLS is there."""
    listener = socket.create_server(("127.0.0.1", 0))

    def run() -> None:
        with contextlib.suppress(OSError):
            while True:
                accepted, _ = listener.accept()
                with contextlib.suppress(OSError):
                    if after_handshake:
                        accepted = trusted.context.wrap_socket(accepted, server_side=True)
                    accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                accepted.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield Origin("127.0.0.1", listener.getsockname()[1], trusted.ca)
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("after_handshake", [False, True], ids=["accepted", "handshake"])
def test_a_server_that_resets_is_unreachable(
    trusted: Certificates, new_loop: Callable[[], asyncio.AbstractEventLoop], after_handshake: bool
) -> None:
    """A reset before TLS began was an AttributeError, a 500, and a traceback of the event loop for each connection."""
    unexpected: list[dict[str, Any]] = []

    async def run(origin: Origin) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unexpected.append(context))
        https = HttpsClient(EgressPolicy(["127.0.0.0/8"]))
        connections = Connections(https.dialer)
        server = PooledServer(1, origin, "", ssl.create_default_context(cadata=trusted.ca))

        async def attempt() -> None:
            with contextlib.suppress(Unreachable):
                connection = await connections.acquire(server)
                try:
                    connection.begin(b"GET / HTTP/1.1\r\n\r\n")
                    await connection.head()
                finally:
                    connections.release(server, connection)

        async with asyncio.timeout(60):
            for _ in range(10):
                await asyncio.gather(*(attempt() for _ in range(20)))
        connections.close()
        await https.aclose()

    with resetting(trusted, after_handshake=after_handshake) as origin, asyncio.Runner(loop_factory=new_loop) as r:
        r.run(run(origin))
    assert unexpected == []


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("is_trusted", [True, False], ids=["trusted", "refused"])
def test_what_a_handshake_takes_is_charged(
    trusted: Certificates,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    new_loop: Callable[[], asyncio.AbstractEventLoop],
    is_trusted: bool,
) -> None:
    """Three intermediate certificates with keys of 16,384 bits took 30 ms, and were charged 2 ms."""
    monkeypatch.setattr(loop_share, "HANDSHAKE_SECONDS", 0.0)
    monkeypatch.setattr(loop_share, "_BURST_SECONDS", 0.0)
    charged: list[float] = []
    charge = LoopShare.charge

    def note(share: LoopShare, seconds: float) -> None:
        charged.append(seconds)
        charge(share, seconds)

    monkeypatch.setattr(LoopShare, "charge", note)
    authority = trusted.ca if is_trusted else certificates(tmp_path).ca

    async def run(origin: Origin) -> None:
        https = HttpsClient(EgressPolicy(["127.0.0.0/8"]))
        context = await TlsContexts().get(1, authority)
        share = LoopShare()
        began = time.thread_time()
        with contextlib.suppress(Unreachable) if is_trusted else pytest.raises(Unreachable):
            connection = await connect(https.dialer, 1, origin, context, share, ConnectTimeouts())
            connection.close()
        # At the latest the second handshake waits for what the first one took.
        assert 0.0 < sum(charged) < time.thread_time() - began
        latest = max(charged)
        await share.handshake_turn()
        assert charged[-1] == latest
        await https.aclose()

    with resetting(trusted, after_handshake=True) as origin, asyncio.Runner(loop_factory=new_loop) as r:
        r.run(run(origin))
