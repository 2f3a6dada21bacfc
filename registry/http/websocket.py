"""WebSockets (RFC 6455) for watches, which browsers read in this way.

    watch = new WebSocket("wss://…/api/v1/configmaps?watch=1",
                          ["base64url.bearer.authorization.k8s.io." + base64url(token), "base64.binary.k8s.io"])

Each event is one message: a text for JSON, binary for the other encodings. What the client sends is ignored, except for
pings and the end. The token: registry/authentication/websocket_protocol.py.

Follows apiserver pkg/endpoints/handlers/watch.go (HandleWS).
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import time
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from starlette.types import Message, Scope, Send

from registry.api.errors import StatusError, bad_request
from registry.authentication.websocket_protocol import PROTOCOLS, is_websocket, without_tokens
from registry.http.responses import Headers
from registry.http.serving.tunnel import SWITCH, Switch, Tunnel, TunnelClosed

_KEY_SUFFIX: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_TEXT, _BINARY, _CLOSE, _PING, _PONG = 0x1, 0x2, 0x8, 0x9, 0xA
_NORMAL, _PROTOCOL_ERROR, _POLICY_VIOLATION = 1000, 1002, 1008
_CONTROL_LIMIT: Final = 125
_CLOSE_SECONDS: Final = 1.0
# Frames that a client may send: so many at once, and so many per second. It has nothing to say but pings, and ten
# thousand fit into what is read at once, which would hold the event loop.
_FRAMES_AT_ONCE: Final = 100
_FRAMES_PER_SECOND: Final = 10


class WebSocket:
    """The server's end. A frame is only written while `writing` is held, so that no other one comes into its middle."""

    def __init__(self, tunnel: Tunnel) -> None:
        self._tunnel = tunnel
        self._received = bytearray()
        self.writing = asyncio.Lock()
        # Whether a part of a message is missing: nothing else can be written.
        self.is_within_message = False

    async def send(self, message: Message) -> None:
        """Writes the body of an ASGI message, a part of frames. Raises TunnelClosed."""
        await self._tunnel.write(message["body"])

    async def wait_for_end(self) -> None:
        """Answers pings, and drops what else the client sends, until it ends the connection."""
        began, frames = time.monotonic(), 0
        with contextlib.suppress(TunnelClosed):
            while True:
                first, second = await self._read(2)
                frames += 1
                if frames > _FRAMES_AT_ONCE + (time.monotonic() - began) * _FRAMES_PER_SECOND:
                    return await self.close(_POLICY_VIOLATION)
                opcode, length = first & 0xF, second & 0x7F
                if length > _CONTROL_LIMIT:
                    length = int.from_bytes(await self._read(2 if length == 126 else 8))
                if not second & 0x80 or (opcode >= _CLOSE and length > _CONTROL_LIMIT):
                    return await self.close(_PROTOCOL_ERROR)
                mask = await self._read(4)
                if opcode == _CLOSE:
                    return None
                if opcode == _PING:
                    data = await self._read(length)
                    await self._write(_PONG, bytes([byte ^ mask[i % 4] for i, byte in enumerate(data)]))
                else:
                    await self._drop(length)

    async def close(self, code: int = _NORMAL) -> None:
        """Says that nothing more comes, unless the client does not read."""
        with contextlib.suppress(TunnelClosed, TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._write(_CLOSE, code.to_bytes(2))

    async def _write(self, opcode: int, data: bytes) -> None:
        async with self.writing:
            await self._tunnel.write(_frame(opcode, data))

    async def _read(self, count: int) -> bytes:
        while len(self._received) < count:
            await self._receive()
        data = bytes(self._received[:count])
        del self._received[:count]
        return data

    async def _drop(self, count: int) -> None:
        while count > 0:
            if not self._received:
                await self._receive()
            dropped = min(count, len(self._received))
            del self._received[:dropped]
            count -= dropped

    async def _receive(self) -> None:
        data = await self._tunnel.receive()
        if not data:
            raise TunnelClosed
        self._received += data


def _frame(opcode: int, data: bytes) -> bytes:
    """A whole message in one frame."""
    length = len(data)
    if length <= _CONTROL_LIMIT:
        size = bytes([length])
    else:
        size = b"\x7e" + length.to_bytes(2) if length < 1 << 16 else b"\x7f" + length.to_bytes(8)
    return bytes([0x80 | opcode]) + size + data


def text_message(data: bytes) -> bytes:
    return _frame(_TEXT, data)


def binary_message(data: bytes) -> bytes:
    return _frame(_BINARY, data)


async def accept(
    scope: Scope, send: Send, headers: Mapping[bytes, bytes], answered: Headers, *, has_token: bool
) -> WebSocket | None:
    """Switches the connection to a WebSocket; None if the request asks for none. Raises 400 and 403.

    `has_token` says that the request has a bearer token. Without one, its user may be that of a client certificate,
    which a browser presents for the pages of any site: such a request must be of a page of this server.
    """
    switch: Switch | None = scope.get(SWITCH)
    if switch is None or not is_websocket(headers):
        return None
    key = headers.get(b"sec-websocket-key", b"")
    if not key or headers.get(b"sec-websocket-version") != b"13":
        raise bad_request("missing Sec-WebSocket-Key, or a Sec-WebSocket-Version other than 13")
    origin = headers.get(b"origin", b"").decode("latin-1")
    if origin and not has_token and not _is_same_origin(origin, headers.get(b"host", b"").decode("latin-1")):
        raise StatusError(403, "Forbidden", "a WebSocket from another origin needs a bearer token", {})
    if not switch.is_possible():
        raise bad_request("the connection cannot switch protocols while other requests are sent over it")
    digest = hashlib.sha1(key + _KEY_SUFFIX, usedforsecurity=False).digest()
    answered += [(b"upgrade", b"websocket"), (b"connection", b"Upgrade")]
    answered.append((b"sec-websocket-accept", base64.b64encode(digest)))
    if protocols := without_tokens(headers.get(PROTOCOLS, b"")):
        answered.append((PROTOCOLS, protocols[0].encode("latin-1")))
    await send({"type": "http.response.start", "status": 101, "headers": answered})
    return WebSocket(switch.tunnel())


def _is_same_origin(origin: str, host: str) -> bool:
    try:
        return urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:
        return False
