"""Many connections, and what they do to one another: handshakes, resets, clients that leave or do not read."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
import struct
from itertools import cycle

from benchmarks.attacks.attacker import ANYTHING, MAPS, Attacker, an_object
from registry.flowcontrol.key_exchange import set_groups


async def handshakes(attacker: Attacker) -> None:
    """Connections without a token: TLS that is begun and left, and requests that are refused."""
    host, port = attacker.target.address

    async def work(one: Attacker) -> None:
        try:
            _, half = await asyncio.open_connection(host, port)
            half.write(b"\x16\x03\x01\x02\x00\x01")
            _, writer = await one.open()
            writer.write(b"GET /api HTTP/1.1\r\nHost: a\r\n\r\n")
            await writer.drain()
            half.transport.abort()
            writer.transport.abort()
            one.answers["opened"] += 1
        except OSError:
            one.answers["closed"] += 1

    await attacker.parallel(20, work)


async def key_exchanges(attacker: Attacker) -> None:
    """Handshakes without a token in the largest finite field of TLS, each with the same first message."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    assert set_groups(context, "ffdhe8192")
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing).do_handshake()
    hello = outgoing.read()

    async def work(one: Attacker) -> None:
        reader, writer = await asyncio.open_connection(*one.target.address)
        try:
            writer.write(hello)
            answer = await reader.read(1 << 16)
            one.answers["handshakes" if answer[:1] == b"\x16" else "refused"] += 1
        finally:
            writer.close()

    await attacker.parallel(16, work)


async def resets(attacker: Attacker) -> None:
    """Connections without a token that send a large body, read the refusal and reset the connection."""
    body = b"x" * 100_000

    async def work(one: Attacker) -> None:
        try:
            reader, writer = await one.open()
            writer.write(b"POST /api HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            one.answers[(await reader.readline()).split()[1].decode()] += 1
            client = writer.get_extra_info("socket")
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
        except (OSError, IndexError):
            one.answers["closed"] += 1

    await attacker.parallel(20, work)


async def leavers(attacker: Attacker) -> None:
    """Lists, writes and patches whose clients reset the connection while these are served."""
    path = await attacker.define("left", ANYTHING)
    for i in range(50):
        await attacker.ask("POST", path, an_object(path, f"o{i}", {"text": "x" * 20_000}))
    large = json.dumps(an_object(path, "", {"lists": [[]] * 20_000})).encode()
    requests = cycle([("GET", f"{path}?limit=200", b""), ("POST", path, large), ("DELETE", f"{path}?dryRun=All", b"")])
    pauses = cycle([0.0, 0.001, 0.003, 0.01])

    async def work(one: Attacker) -> None:
        method, of, body = next(requests)
        try:
            _, writer = await one.open()
            writer.write(one.head(method, of, len(body)) + body)
            await asyncio.sleep(next(pauses))
            client = writer.get_extra_info("socket")
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
            one.answers["left"] += 1
        except OSError:
            one.answers["closed"] += 1

    await attacker.parallel(20, work)


async def unread(attacker: Attacker) -> None:
    """Two thousand connections, each with sixteen gets of an object of 60 kB, whose answers nobody reads."""
    await attacker.ask("POST", MAPS, {"metadata": {"name": "unread"}, "data": {"a": "x" * 60_000}})
    request = attacker.head("GET", f"{MAPS}/unread", 0) * 16

    async def work(one: Attacker) -> None:
        try:
            reader, writer = await one.open()
            try:
                # With so small a limit the reader stops reading from the socket at once.
                writer.write(request)
                one.answers["opened"] += 1
                await reader.readexactly(1)
                await asyncio.sleep(3600)
            finally:
                writer.transport.abort()
        except (OSError, asyncio.IncompleteReadError):
            one.answers["closed"] += 1
            await asyncio.sleep(0.05)

    await attacker.parallel(2_000, work)


async def silent(attacker: Attacker) -> None:
    """As many connections without a token as a process has by default, on which nothing is sent."""
    host, port = attacker.target.address

    async def work(one: Attacker) -> None:
        try:
            reader, writer = await asyncio.open_connection(host, port, limit=1 << 12)
            one.answers["opened"] += 1
            await reader.read()
            writer.transport.abort()
        except OSError:
            pass
        one.answers["closed"] += 1
        await asyncio.sleep(0.05)

    await attacker.parallel(10_000, work)


async def buffers(attacker: Attacker) -> None:
    """A thousand idle connections, on each of which an object of half a megabyte was created, to nothing."""
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "buffer"}, "data": {"a": "x" * 500_000}}
    body = json.dumps(made).encode()
    request = attacker.head("POST", f"{MAPS}?dryRun=All", len(body)) + body

    async def work(one: Attacker) -> None:
        try:
            reader, writer = await one.open()
            try:
                writer.write(request)
                head = await reader.readuntil(b"\r\n\r\n")
                one.answers[head[9:12].decode()] += 1
                while await reader.read(1 << 16):
                    pass
            finally:
                writer.transport.abort()
        except (OSError, asyncio.IncompleteReadError):
            one.answers["closed"] += 1
            await asyncio.sleep(0.05)

    await attacker.parallel(1_000, work)
