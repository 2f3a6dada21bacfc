"""The least HTTP client that a fuzzer needs: it sends what it is given and says how the answer came.

No library stands between: those refuse to send what is odd, and hide how a connection ended.
"""

from __future__ import annotations

import socket
import time
from dataclasses import dataclass, field

from tests.fuzz.calls import Call

# Longer than what counts as slow: the finding says how long it took.
PATIENCE_SECONDS = 40.0
# A watch is left when it has been silent for so long.
_IDLE_SECONDS = 0.05


class Dropped(Exception):
    """The connection ended before the answer was whole; `str()` says where."""


@dataclass(frozen=True)
class Answer:
    code: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    seconds: float = 0.0

    @property
    def media_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0]


class Wire:
    """One connection that is kept alive, and opened again when the server has closed it properly."""

    def __init__(self, port: int, token: str) -> None:
        self._port = port
        self._token = token
        self._socket: socket.socket | None = None
        self._buffer = b""

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket, self._buffer = None, b""

    def send(self, call: Call, tenant: str) -> Answer:
        """Raises Dropped, TimeoutError."""
        message = self._message(call, tenant)
        fresh = self._socket is None
        started = time.perf_counter()
        try:
            return self._exchange(message, call, started)
        except Dropped as error:
            self.close()
            # A server may close an idle connection at the very moment that it is used.
            if fresh or str(error) != "before the answer":
                raise
        except (TimeoutError, OSError) as error:
            self.close()
            if isinstance(error, TimeoutError):
                raise
        return self._exchange(message, call, started)

    def _exchange(self, message: bytes, call: Call, started: float) -> Answer:
        if self._socket is None:
            self._socket = socket.create_connection(("127.0.0.1", self._port), PATIENCE_SECONDS)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.settimeout(PATIENCE_SECONDS)
        try:
            self._socket.sendall(message)
        except (BrokenPipeError, ConnectionResetError):
            pass  # refused before it was read whole: the answer may be there nevertheless
        code, headers = self._head()
        seconds = time.perf_counter() - started
        body = self._body(call, code, headers)
        if not call.is_watch:
            seconds = time.perf_counter() - started
        if headers.get("connection", "").lower() == "close":
            self.close()
        return Answer(code, headers, body, seconds)

    def _message(self, call: Call, tenant: str) -> bytes:
        content = call.content()
        lines = [f"{call.method} {call.target(tenant)} HTTP/1.1", f"host: 127.0.0.1:{self._port}"]
        lines += [f"{name}: {value}" for name, value in call.headers]
        if not call.header("authorization"):
            lines.append(f"authorization: Bearer {self._token}")
        if content is not None:
            lines.append(f"content-length: {len(content)}")
        head = "\r\n".join(line.replace("\r", " ").replace("\n", " ") for line in lines)
        return head.encode("utf-8", "replace") + b"\r\n\r\n" + (content or b"")

    def _head(self) -> tuple[int, dict[str, str]]:
        head = self._until(b"\r\n\r\n", "before the answer").decode("latin-1")
        first, *lines = head.split("\r\n")
        headers: dict[str, str] = {}
        for line in lines:
            name, _, value = line.partition(":")
            key = name.strip().lower()
            headers[key] = f"{headers[key]}, {value.strip()}" if key in headers else value.strip()
        return int(first.split(" ")[1]), headers

    def _body(self, call: Call, code: int, headers: dict[str, str]) -> bytes:
        if call.method == "HEAD" or code in (204, 304) or code < 200:
            return b""
        if headers.get("transfer-encoding", "") == "chunked":
            return self._watched() if call.is_watch and code == 200 else self._chunks()
        return self._exactly(int(headers.get("content-length", "0")))

    def _chunks(self) -> bytes:
        pieces = []
        while size := int(self._until(b"\r\n", "within the body"), 16):
            pieces.append(self._exactly(size))
            self._exactly(2)
        self._until(b"\r\n", "within the body")
        return b"".join(pieces)

    def _watched(self) -> bytes:
        """The events that come at once; then the watch is left."""
        pieces = []
        assert self._socket is not None
        self._socket.settimeout(_IDLE_SECONDS)
        try:
            while size := int(self._until(b"\r\n", "within the body"), 16):
                pieces.append(self._exactly(size))
                self._exactly(2)
            self._until(b"\r\n", "within the body")
        except TimeoutError:
            self.close()
        return b"".join(pieces)

    def _until(self, end: bytes, where: str) -> bytes:
        while end not in self._buffer:
            self._more(where)
        found, _, self._buffer = self._buffer.partition(end)
        return found

    def _exactly(self, size: int) -> bytes:
        while len(self._buffer) < size:
            self._more("within the body")
        found, self._buffer = self._buffer[:size], self._buffer[size:]
        return found

    def _more(self, where: str) -> None:
        assert self._socket is not None
        try:
            piece = self._socket.recv(1 << 18)
        except ConnectionResetError:
            piece = b""
        if not piece:
            raise Dropped(where)
        self._buffer += piece
