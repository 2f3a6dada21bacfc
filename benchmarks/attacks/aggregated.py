"""Servers of APIServices that a tenant has: what they answer, and whom they are trusted by."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import datetime
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import count
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from benchmarks.attacks.attacker import MERGE_PATCH, TENANT, Attacker
from benchmarks.attacks.found import tls_server

_GROUP = "served.example.com"
_SERVICES = f"{TENANT}/apis/apiregistration.k8s.io/v1/apiservices"
_PATH = f"/apis/{_GROUP}/v1"
_DISCOVERY = b'{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"served.example.com/v1","resources":[]}'
# The clients of the streams.
_CLIENTS = 64

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


async def pieces(attacker: Attacker) -> None:
    """Answers without end, in chunks of one byte, for many clients."""
    endless = b"1\r\na\r\n" * 10_000

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        while not writer.is_closing():
            writer.write(endless)
            await writer.drain()

    await _streams(attacker, answer)


async def floods(attacker: Attacker) -> None:
    """Answers without end, as fast as they are taken, for many clients."""
    endless = b"x" * 250_000

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while not writer.is_closing():
            writer.write(endless)
            await writer.drain()

    await _streams(attacker, answer)


async def _streams(attacker: Attacker, answer: Answer) -> None:
    async with _api_service(attacker, answer):

        async def work(one: Attacker) -> None:
            reader, writer = await one.open()
            try:
                writer.write(one.head("GET", f"{TENANT}{_PATH}/things?watch=true", 0))
                one.answers[(await reader.readline())[9:12].decode() or "closed"] += 1
                while await reader.read(1 << 20):
                    pass
            except OSError:
                one.answers["closed"] += 1
            finally:
                writer.transport.abort()

        await attacker.parallel(_CLIENTS, work)


async def reconnects(attacker: Attacker) -> None:
    """A server that ends the connection after each answer, so that each request needs another handshake."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}")
        await writer.drain()

    async with _api_service(attacker, answer):

        async def work(one: Attacker) -> None:
            await one.ask("GET", f"{TENANT}{_PATH}/things")

        await attacker.parallel(_CLIENTS, work)


async def bundles(attacker: Attacker) -> None:
    """A CA bundle of thousands of certificates, another one for each request."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
        await writer.drain()

    key = ed25519.Ed25519PrivateKey.generate()
    certificates = [_certificate(key, i) for i in range(6_000)]
    numbers = count()
    async with _api_service(attacker, answer):

        async def work(one: Attacker) -> None:
            bundle = b"".join([_certificate(key, 10_000 + next(numbers)), *certificates])
            spec = {"caBundle": base64.b64encode(bundle).decode(), "insecureSkipTLSVerify": False}
            await one.ask("PATCH", f"{_SERVICES}/v1.{_GROUP}", {"spec": spec}, kind=MERGE_PATCH)
            await one.ask("GET", f"{TENANT}{_PATH}/things")

        await attacker.parallel(1, work)


@contextlib.asynccontextmanager
async def _api_service(attacker: Attacker, answer: Answer) -> AsyncIterator[None]:
    """Registers a server of ours, which gives `answer` to everything but the questions of the monitor."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, ssl.SSLError, asyncio.CancelledError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                path = head.split(b" ")[1].decode()
                if path.startswith(f"{_PATH}/"):
                    await answer(writer)
                    if b"connection: close" in head:
                        break
                    continue
                body = _DISCOVERY if path == _PATH else b"{}"
                status = b"200 OK" if path == _PATH else b"404 Not Found"
                writer.write(b"HTTP/1.1 %b\r\ncontent-length: %d\r\n\r\n%b" % (status, len(body), body))
        writer.close()

    async with tls_server(handle) as (port, _):
        service: dict[str, Any] = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "served"}}
        service["spec"] = {"type": "ExternalName", "externalName": "127.0.0.1"}
        await attacker.ask("POST", f"{TENANT}/api/v1/namespaces/default/services", service)
        spec = {"group": _GROUP, "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 15}
        place = {"name": "served", "namespace": "default", "port": port}
        made = {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": f"v1.{_GROUP}"},
            "spec": {**spec, "service": place, "insecureSkipTLSVerify": True},
        }
        await attacker.ask("DELETE", f"{_SERVICES}/v1.{_GROUP}")
        await attacker.ask("POST", _SERVICES, made)
        await asyncio.sleep(2)  # until it is available
        yield


def _certificate(key: ed25519.Ed25519PrivateKey, number: int) -> bytes:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"c{number}")])
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), number + 1)
    day = datetime.timedelta(days=1)
    return builder.not_valid_before(now - day).not_valid_after(now + day).sign(key, None).public_bytes(Encoding.PEM)
