"""Watches over WebSockets: the application behind the server's own protocol class, and a raw client."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import struct
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import pytest
import pytest_asyncio

from registry.authentication.websocket_protocol import TOKEN_PROTOCOL
from registry.codec.protobuf.envelope import encode_watch_event
from registry.http.negotiation import MEDIA_TYPES, PROTOBUF
from tests.api.client import Client
from tests.api.widgets import WIDGETS, widget
from tests.application import shares_application
from tests.http.streams import PATIENCE_SECONDS, Application, connection

pytestmark = shares_application

MAPS: Final = "/api/v1/namespaces/default/configmaps"
TEXT, BINARY, CLOSE, PING, PONG = 0x1, 0x2, 0x8, 0x9, 0xA
# The example of RFC 6455, section 1.3.
KEY, ACCEPTED = "dGhlIHNhbXBsZSBub25jZQ==", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


class Socket:
    """A client's end, after the answer to its request."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, code: int, head: str) -> None:
        self._reader = reader
        self._writer = writer
        self.code = code
        self.head = head

    async def frame(self) -> tuple[int, bytes]:
        async with asyncio.timeout(PATIENCE_SECONDS):
            first, length = await self._reader.readexactly(2)
            assert first & 0x70 == 0
            assert first & 0x80, "a message in several frames"
            if length >= 126:
                length = int.from_bytes(await self._reader.readexactly(2 if length == 126 else 8))
            return first & 0xF, await self._reader.readexactly(length)

    async def event(self) -> Any:
        opcode, data = await self.frame()
        assert opcode == TEXT, (opcode, data)
        return json.loads(data)

    def send(self, opcode: int, data: bytes = b"", *, masked: bool = True) -> None:
        mask = b"\x01\x02\x03\x04" if masked else b""
        sent = bytes(byte ^ mask[i % 4] for i, byte in enumerate(data)) if masked else data
        size = struct.pack("!B", len(data)) if len(data) < 126 else struct.pack("!BH", 126, len(data))
        self._writer.write(bytes([0x80 | opcode, size[0] | (0x80 if masked else 0)]) + size[1:] + mask + sent)

    async def at_end(self) -> bool:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await self._reader.read() == b""


class Sockets:
    """Opens WebSockets to the server of a tenant."""

    def __init__(self, application: Application, prefix: str, token: str) -> None:
        self._application = application
        self._prefix = prefix
        self.token = token

    @contextlib.asynccontextmanager
    async def open(
        self, path: str, protocols: str = "", headers: Mapping[str, str | None] | None = None
    ) -> AsyncIterator[Socket]:
        """`headers` of None leave out what is sent otherwise."""
        lines: dict[str, str | None] = {
            "host": "registry.example.com",
            "connection": "keep-alive, Upgrade",
            "upgrade": "websocket",
            "sec-websocket-key": KEY,
            "sec-websocket-version": "13",
            "sec-websocket-protocol": protocols or None,
            "authorization": None if TOKEN_PROTOCOL in protocols else f"Bearer {self.token}",
            **(headers or {}),
        }
        head = [f"GET {self._prefix}{path} HTTP/1.1"]
        head += [f"{name}: {value}" for name, value in lines.items() if value is not None]
        async with connection(self._application) as (reader, writer), asyncio.timeout(PATIENCE_SECONDS):
            writer.write("\r\n".join(head).encode() + b"\r\n\r\n")
            answer = (await reader.readuntil(b"\r\n\r\n")).decode()
            yield Socket(reader, writer, int(answer.split(" ")[1]), answer.lower())


@pytest_asyncio.fixture(loop_scope="module")
async def sockets(api: Client) -> Sockets:
    application: Any = api._app
    return Sockets(application, api.prefix, api._token)


def token_protocol(token: str) -> str:
    return TOKEN_PROTOCOL + base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")


async def test_events_are_messages(api: Client, sockets: Sockets) -> None:
    (await api.post(WIDGETS, widget("a"))).ok(201)
    protocols = f"base64.binary.k8s.io, {token_protocol(sockets.token)}"
    async with sockets.open(f"{WIDGETS}?watch=1", protocols, {"origin": "https://elsewhere.example.com"}) as socket:
        assert socket.code == 101
        assert f"sec-websocket-accept: {ACCEPTED.lower()}\r\n" in socket.head
        assert "sec-websocket-protocol: base64.binary.k8s.io\r\n" in socket.head
        assert "upgrade: websocket\r\n" in socket.head
        assert "transfer-encoding" not in socket.head
        event = await socket.event()
        assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "a")
        (await api.post(WIDGETS, widget("large", note="x" * 100_000))).ok(201)
        (await api.patch(f"{WIDGETS}/a", {"metadata": {"labels": {"n": "x" * 60}}})).ok()
        assert (await socket.event())["object"] == (await api.get(f"{WIDGETS}/large")).ok()
        assert (await socket.event())["object"] == (await api.get(f"{WIDGETS}/a")).ok()


async def test_other_encodings_are_binary(api: Client, sockets: Sockets) -> None:
    made = (await api.post(MAPS, {"metadata": {"name": "a"}})).ok(201)
    query = "watch=1&fieldSelector=metadata.name=a"
    async with sockets.open(f"{MAPS}?{query}", headers={"accept": MEDIA_TYPES[PROTOBUF]}) as socket:
        assert await socket.frame() == (BINARY, encode_watch_event("ADDED", made))


async def test_what_a_client_sends(api: Client, sockets: Sockets) -> None:
    async with sockets.open(f"{WIDGETS}?watch=1") as socket:
        socket.send(TEXT, b"x" * 10_000)
        socket.send(PING, b"abc")
        assert await socket.frame() == (PONG, b"abc")
        (await api.post(WIDGETS, widget("a"))).ok(201)
        assert (await socket.event())["type"] == "ADDED"
        socket.send(CLOSE, b"\x03\xe8")
        assert await socket.frame() == (CLOSE, b"\x03\xe8")
        assert await socket.at_end()


async def test_a_flood_of_frames_ends_the_connection(sockets: Sockets) -> None:
    """Ten thousand pings in one read would hold the event loop for a tenth of a second, on each connection."""
    async with sockets.open(f"{WIDGETS}?watch=1") as socket:
        for _ in range(1_000):
            socket.send(PING)
        frames = [await socket.frame()]
        while frames[-1][0] == PONG:
            frames.append(await socket.frame())
        assert frames[-1] == (CLOSE, b"\x03\xf0")
        assert 100 <= len(frames) < 500


async def test_the_end_of_a_watch(sockets: Sockets) -> None:
    async with sockets.open(f"{WIDGETS}?watch=1&timeoutSeconds=1") as socket:
        assert await socket.frame() == (CLOSE, b"\x03\xe8")
        assert await socket.at_end()


async def test_a_frame_without_a_mask_ends_the_connection(sockets: Sockets) -> None:
    async with sockets.open(f"{WIDGETS}?watch=1") as socket:
        socket.send(PING, masked=False)
        assert await socket.frame() == (CLOSE, b"\x03\xea")


@pytest.mark.parametrize(
    "path, headers, code",
    [
        pytest.param("/apis/test.example.com/v1/nothing?watch=1", {}, 404, id="no such resource"),
        pytest.param(f"{WIDGETS}?watch=1&resourceVersion=x", {}, 500, id="invalid options"),
        pytest.param(f"{WIDGETS}?watch=1", {"sec-websocket-key": None}, 400, id="no key"),
        pytest.param(f"{WIDGETS}?watch=1", {"sec-websocket-version": "8"}, 400, id="an old version"),
        pytest.param(f"{WIDGETS}?watch=1", {"upgrade": "h2c"}, 200, id="another protocol"),
        pytest.param(WIDGETS, {}, 200, id="a list"),
        pytest.param(f"{WIDGETS}?watch=1", {"authorization": None}, 403, id="anonymous"),
        pytest.param(f"{WIDGETS}?watch=1", {"authorization": "Bearer wrong"}, 401, id="a wrong token"),
        pytest.param(
            f"{WIDGETS}?watch=1",
            {"authorization": None, "sec-websocket-protocol": TOKEN_PROTOCOL + "!, x"},
            401,
            id="a malformed token",
        ),
    ],
)
async def test_what_does_not_switch(sockets: Sockets, path: str, headers: dict[str, str | None], code: int) -> None:
    async with sockets.open(path, headers=headers) as socket:
        assert socket.code == code


@pytest.mark.parametrize(
    "origin, code", [("https://registry.example.com", 101), ("https://elsewhere.example.com", 403), ("null", 403)]
)
async def test_pages_of_other_sites_need_a_token(api: Client, sockets: Sockets, origin: str, code: int) -> None:
    """A browser presents its client certificate for any page; anonymous users stand for its user here."""
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    rule = {"apiGroups": ["*"], "resources": ["widgets"], "verbs": ["watch"]}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "readers"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:unauthenticated"}
    await api.post(f"{rbac}/clusterroles", {"metadata": {"name": "readers"}, "rules": [rule]})
    await api.post(f"{rbac}/clusterrolebindings", {"metadata": {"name": "all"}, "roleRef": role, "subjects": [subject]})
    async with sockets.open(f"{WIDGETS}?watch=1", headers={"authorization": None, "origin": origin}) as socket:
        assert socket.code == code
