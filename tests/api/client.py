"""An in-process client of the ASGI application; watches are read event by event.

Bodies are kept as the bytes that a real client would receive.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

import orjson
from starlette.types import ASGIApp, Message

from registry.flowcontrol.interruption import WHEN_GONE

JSON = "application/json"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"

# How long a test waits for something expected within milliseconds. It is long so that a busy machine fails no test.
PATIENCE_SECONDS = 60.0

Body = bytes | str | Mapping[str, Any] | list[Any] | None


@dataclass(frozen=True)
class Answer:
    """A response. `headers` maps lower-case names to all values that were sent."""

    code: int
    headers: dict[str, list[str]]
    body: bytes

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)

    @property
    def text(self) -> str:
        return self.body.decode()

    def header(self, name: str) -> str:
        found = self.headers.get(name, [])
        assert len(found) <= 1, f"{name} was sent {len(found)} times"
        return found[0] if found else ""

    @property
    def warnings(self) -> list[str]:
        """The texts of the Warning headers."""
        return [json.loads(w.removeprefix("299 - ")) for w in self.headers.get("warning", [])]

    def ok(self, code: int | None = None) -> Any:
        """Asserts success, or exactly `code`, and returns the decoded body."""
        assert self.code == code if code else self.code < 300, f"{self.code}: {self.text[:2000]}"
        return self.json


class Client:
    """Sends requests to the application. `prefix` is put before every path: `/clusters/acme`."""

    def __init__(self, app: ASGIApp, token: str, prefix: str = "") -> None:
        self._app = app
        self._token = token
        self.prefix = prefix

    def of_tenant(self, name: str) -> Client:
        return Client(self._app, self._token, f"/clusters/{name}")

    def with_token(self, token: str) -> Client:
        """Returns a client with another token; with an empty one it sends none."""
        return Client(self._app, token, self.prefix)

    async def request(
        self,
        method: str,
        path: str,
        body: Body = None,
        *,
        content_type: str = JSON,
        accept: str = "",
        headers: Mapping[str, str] | None = None,
        scope: Mapping[str, Any] | None = None,
    ) -> Answer:
        """`scope` is added to the ASGI scope. Raises NotAnswered."""
        sent = _encoded(body)
        exchange = _Exchange([{"type": "http.request", "body": sent, "more_body": False}])
        all_headers = dict(headers or {})
        if body is not None:
            all_headers.setdefault("content-type", content_type)
            all_headers.setdefault("content-length", str(len(sent)))
        if accept:
            all_headers["accept"] = accept
        await self._app({**self._scope(method, path, all_headers), **(scope or {})}, exchange.receive, exchange.send)
        return exchange.answer()

    async def get(self, path: str, **options: Any) -> Answer:
        return await self.request("GET", path, **options)

    async def post(self, path: str, body: Body, **options: Any) -> Answer:
        return await self.request("POST", path, body, **options)

    async def put(self, path: str, body: Body, **options: Any) -> Answer:
        return await self.request("PUT", path, body, **options)

    async def patch(self, path: str, body: Body, content_type: str = MERGE, **options: Any) -> Answer:
        return await self.request("PATCH", path, body, content_type=content_type, **options)

    async def delete(self, path: str, body: Body = None, **options: Any) -> Answer:
        return await self.request("DELETE", path, body, **options)

    @contextlib.asynccontextmanager
    async def watch(self, path: str, *, accept: str = "") -> AsyncIterator[Watch]:
        """A watch whose response has started. The client disconnects at the end of the block."""
        watch = Watch()
        headers = {"accept": accept} if accept else {}
        scope = {**self._scope("GET", path, headers), WHEN_GONE: watch.when_gone}
        task = asyncio.create_task(self._run(scope, watch))
        try:
            await _soon(watch.begun.wait())
            yield watch
        finally:
            watch.hang_up()
            await _soon(asyncio.gather(task, return_exceptions=True))
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error

    async def _run(self, scope: dict[str, Any], watch: Watch) -> None:
        try:
            await self._app(scope, watch.receive, watch.send)
        finally:
            watch.begun.set()
            watch.end()

    def _scope(self, method: str, path: str, headers: Mapping[str, str]) -> dict[str, Any]:
        path, _, query = (self.prefix + path).partition("?")
        raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        if self._token and "authorization" not in headers:
            raw.append((b"authorization", f"Bearer {self._token}".encode()))
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "https",
            "path": unquote(path),
            "raw_path": path.encode(),
            "query_string": quote(query, safe="%&=+,!()/;:@$'*-._~").encode(),
            "root_path": "",
            "headers": raw,
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 443),
        }


class NotAnswered(Exception):
    """The application has sent nothing, since the client has disconnected."""


class _Exchange:
    """The ASGI messages of one request and its response."""

    def __init__(self, messages: list[Message]) -> None:
        self._messages = messages
        self._sent: list[Message] = []

    async def receive(self) -> Message:
        if self._messages:
            return self._messages.pop(0)
        await asyncio.get_running_loop().create_future()
        raise AssertionError("never")

    async def send(self, message: Message) -> None:
        self._sent.append(message)

    def answer(self) -> Answer:
        if not self._sent:
            raise NotAnswered
        start, *rest = self._sent
        assert rest, "the answer has no body"
        assert not rest[-1].get("more_body"), "the answer is not whole"
        return Answer(start["status"], _headers(start), b"".join(m.get("body", b"") for m in rest))


class Watch:
    """The stream of a watch. `code` is the response's status; after `stall()` the client stops reading."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.code = 0
        self.headers: dict[str, list[str]] = {}
        self._pieces: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._lines: list[bytes] = []
        self._rest = b""
        self._gone = asyncio.Event()
        self._when_gone: Callable[[], None] | None = None
        self._reading = asyncio.Event()
        self._reading.set()
        self._ended = False

    async def receive(self) -> Message:
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.code, self.headers = message["status"], _headers(message)
            return
        self.begun.set()
        await self._reading.wait()
        if message.get("body"):
            self._pieces.put_nowait(message["body"])

    def when_gone(self, call: Callable[[], None] | None) -> None:
        """As the server's (registry/http/serving/cycle.py)."""
        self._when_gone = call

    def hang_up(self) -> None:
        self._gone.set()
        self._reading.set()
        if self._when_gone is not None:
            self._when_gone()

    def stall(self) -> None:
        self._reading.clear()

    def read_on(self) -> None:
        self._reading.set()

    def end(self) -> None:
        self._pieces.put_nowait(None)

    async def event(self) -> Any:
        """Returns the next event: {"type": "ADDED", "object": {...}}."""
        return orjson.loads(await self.line())

    async def line(self) -> bytes:
        while not self._lines:
            piece = None if self._ended else await _soon(self._pieces.get())
            if piece is None:
                self._ended = True
                raise EOFError("the watch has ended")
            *self._lines, self._rest = (self._rest + piece).split(b"\n")
        return self._lines.pop(0)

    async def read(self, size: int) -> bytes:
        """Returns `size` bytes of a watch that is not divided into lines."""
        while len(self._rest) < size:
            piece = None if self._ended else await _soon(self._pieces.get())
            if piece is None:
                self._ended = True
                raise EOFError("the watch has ended")
            self._rest += piece
        found, self._rest = self._rest[:size], self._rest[size:]
        return found

    async def events(self, count: int) -> list[Any]:
        return [await self.event() for _ in range(count)]

    async def until_end(self) -> list[Any]:
        """Waits until the server ends the watch, and returns the remaining events."""
        found = []
        with contextlib.suppress(EOFError):
            while True:
                found.append(await self.event())
        assert self._rest == b"", "the watch ended in the middle of a line"
        return found

    def body(self) -> bytes:
        """Returns the body if the response was not a watch."""
        pieces = [self._rest]
        while not self._pieces.empty():
            pieces.append(self._pieces.get_nowait() or b"")
        return b"".join(pieces)


async def eventually(condition: Callable[[], Any]) -> Any:
    """Calls an async function until it returns a true value, and returns that value."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            found = await condition()
            if found:
                return found
            await asyncio.sleep(0.01)


async def _soon(awaitable: Any) -> Any:
    async with asyncio.timeout(PATIENCE_SECONDS):
        return await awaitable


def _headers(start: Message) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in start["headers"]:
        found.setdefault(name.decode(), []).append(value.decode())
    return found


def _encoded(body: Body) -> bytes:
    if body is None:
        return b""
    if isinstance(body, bytes):
        return body
    return body.encode() if isinstance(body, str) else orjson.dumps(body)
