"""Files that clients without a token request and do not read."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import weakref
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from registry.console.app import INDEX, STATIC, Console
from registry.console.oidc import SignIn
from registry.flowcontrol.byte_shares import MIB, Answers
from registry.http.middleware.console import ConsoleMiddleware
from registry.http.middleware.errors import ErrorsMiddleware
from registry.http.middleware.request_info import RequestInfoMiddleware
from registry.http.serving.protocol import Protocol
from registry.http.serving.tls import ensure_certificates, server_context
from registry.settings.declarations import Settings
from tests.api.client import eventually
from tests.http.acceptors import accepting
from tests.http.streams import hello
from tests.http.tls_client import Client

# Of 437 kB, the longest.
FILE = b"GET /console/vendor/codemirror.js HTTP/1.1\r\nhost: x\r\n\r\n"


@contextlib.asynccontextmanager
async def console(folder: Path, references: list[weakref.ref[Protocol]]) -> AsyncIterator[tuple[int, ssl.SSLContext]]:
    """The port of a server of the console alone, whose answers may hold a megabyte, and a client's context.
    `references` receives one of each connection."""
    files = Console(SignIn(Settings(data_dir=folder)))
    others: Any = hello
    application = RequestInfoMiddleware(ErrorsMiddleware(ConsoleMiddleware(others, files, Answers(MIB))))
    made = ensure_certificates(folder, "127.0.0.1", ())
    context = server_context(made.certificate, made.key)
    async with accepting(100, context, application, references) as (_, port):
        yield port, ssl.create_default_context(cafile=str(made.authority))


async def unread(port: int, references: list[weakref.ref[Protocol]]) -> Client:
    """A client that requests a file and reads nothing of it; the system takes little for it."""
    client = await asyncio.to_thread(Client, port)
    await asyncio.to_thread(client.shake_hands)

    async def is_made() -> bool:
        protocol = references[-1]()
        if protocol is None or not protocol.was_made:
            return False
        protocol.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        return True

    await eventually(is_made)
    client.send(client.records(FILE))
    return client


def waiting(references: list[weakref.ref[Protocol]]) -> list[int]:
    """What waits in the connections for their clients, of those where anything does."""
    made = [protocol for one in references if (protocol := one()) is not None and protocol.was_made]
    return [size for protocol in made if (size := protocol.transport.get_write_buffer_size())]


async def test_no_more_of_a_file_is_held_than_its_client_reads(tmp_path: Path) -> None:
    """All of it was encrypted at once: a thousand connections took 360 MB."""
    references: list[weakref.ref[Protocol]] = []
    async with console(tmp_path, references) as (port, _):
        client = await unread(port, references)

        async def some() -> bool:
            return waiting(references) != []

        await eventually(some)
        await asyncio.sleep(0.1)  # no more is encrypted
        assert waiting(references)[0] < 64 * 1024
        received = 0
        while received < 437_000:
            received += len(await asyncio.to_thread(client.receive))
        client.socket.close()


async def test_unread_files_have_a_limit_in_sum(tmp_path: Path) -> None:
    references: list[weakref.ref[Protocol]] = []
    async with console(tmp_path, references) as (port, _):
        clients = [await unread(port, references) for _ in range(4)]

        async def all_wait() -> bool:
            return len(waiting(references)) == 4

        await eventually(all_wait)
        clients.append(await unread(port, references))
        assert (await asyncio.to_thread(clients[-1].receive)).startswith(b"HTTP/1.1 429 Too Many Requests\r\n")
        for client in clients:
            client.socket.close()


@pytest.mark.parametrize("file", ["", "vendor/codemirror.js", "icon.svg"])
async def test_a_file_in_parts_is_whole(tmp_path: Path, file: str) -> None:
    async with console(tmp_path, []) as (port, context):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="127.0.0.1")
        writer.write(FILE.replace(b"vendor/codemirror.js", file.encode()))
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.partition(b"content-length: ")[2].partition(b"\r")[0])
        assert await reader.readexactly(length) == (STATIC / (file or INDEX)).read_bytes()
        writer.transport.abort()
