"""Many long answers of one tenant at once: they wait for room, instead of being refused or ended."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import ssl
from pathlib import Path

import pytest
from starlette.types import Message, Receive, Scope, Send

from tests.api.client import JSON, MERGE, Client
from tests.application import TOKEN, running
from tests.folders import data_folder
from tests.http.streams import PATIENCE_SECONDS, answer
from tests.running import RunningServer, running_server

MAPS = "/api/v1/namespaces/default/configmaps"
CLIENTS = 4
LETTERS = 1_000_000

pytestmark = pytest.mark.slow  # a server


async def test_lists_that_have_grown_wait_for_room() -> None:
    """Of four lists whose collection had grown since the last one some were answered with 429."""
    with data_folder() as folder, running_server(folder / "data", "--answer-limit-megabytes", "64") as server:
        await _ask(server, "POST", MAPS, {"metadata": {"name": "small"}})
        await _ask(server, "GET", f"{MAPS}?limit=500")
        for i in range(3):
            await _ask(server, "POST", MAPS, {"metadata": {"name": f"large{i}"}, "data": {"a": "x" * LETTERS}})
        lists = [await _begin(server, "GET", f"{MAPS}?limit=500") for _ in range(CLIENTS)]
        await asyncio.sleep(0.5)  # the answers wait for their clients
        answers = await asyncio.gather(*(_answer(reader) for reader, _ in lists))
        for _, writer in lists:
            writer.close()
        assert {status for status, _ in answers} == {200}
        assert min(length for _, length in answers) > 3 * LETTERS


async def test_long_lists_at_once_are_whole() -> None:
    """Of four lists of 2,500 objects some were cut off: their later parts are longer than the first one."""
    with data_folder() as folder, running_server(folder / "data", "--answer-limit-megabytes", "64") as server:
        await _make(server, 2_500)
        for _ in range(2):  # nothing is known of the first ones
            lists = [await _begin(server, "GET", MAPS) for _ in range(2 * CLIENTS)]
            answers = await asyncio.gather(*(_answer(reader) for reader, _ in lists))
            for _, writer in lists:
                writer.close()
            assert {status for status, _ in answers} == {200}
            assert min(length for _, length in answers) > 2_500 * 3_000


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH"])
async def test_a_large_object_waits_for_room_beside_a_list(method: str, api_database: str, tmp_path: Path) -> None:
    """Gets were refused with 429, and so were writes, after their commit."""
    stalled, go = asyncio.Event(), asyncio.Event()
    async with running(api_database, tmp_path, answer_limit_megabytes=8) as app:

        async def stall(scope: Scope, receive: Receive, send: Send) -> None:
            async def send_later(message: Message) -> None:
                stalled.set()
                await go.wait()
                await send(message)

            await app(scope, receive, send_later)

        client = Client(app, TOKEN)
        for i in range(2):
            (await client.post(MAPS, {"metadata": {"name": f"large{i}"}, "data": {"a": "x" * 350_000}})).ok(201)
        listing = asyncio.create_task(Client(stall, TOKEN).get(MAPS))
        await stalled.wait()
        name = "new" if method == "POST" else "large0"
        body = None if method == "GET" else {"metadata": {"name": name}, "data": {"a": "y" * 350_000}}
        content_type = MERGE if method == "PATCH" else JSON
        path = MAPS if method == "POST" else f"{MAPS}/{name}"
        answering = asyncio.create_task(client.request(method, path, body, content_type=content_type))
        await asyncio.sleep(0.3)  # whether it waits
        assert answering.done() == (method == "GET"), "one that has been made may exceed the share of its tenant"
        assert (await client.get(f"{MAPS}/new")).code == 404
        go.set()
        assert (await answering).code == (201 if method == "POST" else 200)
        assert len((await listing).ok()["items"]) == 3


@pytest.mark.parametrize("start", ["", "&resourceVersion=1"], ids=["state", "changes"])
async def test_watches_at_once_are_sent_everything(start: str) -> None:
    """Of five watches, those that found no room for what they had to send were ended by the server."""
    with data_folder() as folder, running_server(folder / "data", "--answer-limit-megabytes", "64") as server:
        for i in range(7):
            await _ask(server, "POST", MAPS, {"metadata": {"name": f"large{i}"}, "data": {"a": "x" * LETTERS}})
        watches = [await _begin(server, "GET", f"{MAPS}?watch=true{start}") for _ in range(5)]
        await asyncio.sleep(0.5)  # the events wait for their clients
        events = await asyncio.gather(*(_events(reader) for reader, _ in watches))
        for _, writer in watches:
            writer.close()
        assert events == [[f"large{i}" for i in range(7)]] * 5


async def _events(reader: asyncio.StreamReader) -> list[str]:
    """The names of the large objects of a watch's events, up to the last; or to its end."""
    received = b""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while part := await reader.read(1 << 16):
            received += part
            if received.endswith(b"\n\r\n") and b'"name":"large6"' in received:
                break
    return [name.decode() for name in re.findall(rb'"name":"(large\d)"', received)]


async def _begin(
    server: RunningServer, method: str, path: str, body: object = None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection on which a request has been sent, and nothing is read beyond some kilobytes."""
    context = ssl.create_default_context(cafile=str(server.authority))
    connected = socket.create_connection(("127.0.0.1", server.port))
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 17)
    streams = await asyncio.open_connection(sock=connected, ssl=context, server_hostname="127.0.0.1", limit=1 << 16)
    data = b"" if body is None else json.dumps(body).encode()
    token = (server.data_dir / "admin-token").read_text().strip()
    head = f"{method} {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"
    streams[1].write(f"{head}Content-Length: {len(data)}\r\nConnection: close\r\n\r\n".encode() + data)
    return streams


async def _answer(reader: asyncio.StreamReader) -> tuple[int, int]:
    """The status and the length of an answer."""
    length, head = 0, b""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while part := await reader.read(1 << 16):
            head, length = head or part, length + len(part)
    return int(head.split()[1]), length


async def _ask(server: RunningServer, method: str, path: str, body: object = None) -> None:
    reader, writer = await _begin(server, method, path, body)
    status, _ = await _answer(reader)
    writer.close()
    assert status in (200, 201)


async def _make(server: RunningServer, count: int) -> None:
    """Makes as many config maps of 3 kB, over one connection."""
    context = ssl.create_default_context(cafile=str(server.authority))
    token = (server.data_dir / "admin-token").read_text().strip()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context)
    for i in range(count):
        data = json.dumps({"metadata": {"name": f"m{i}"}, "data": {"a": "x" * 3_000}}).encode()
        head = f"POST {MAPS} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
        assert (await answer(reader))[0] == 201
    writer.close()
