"""One HTTPS exchange with a server that a user has named: each phase and each size is bounded.

Redirects are not followed, proxies from the environment not used, cookies not kept. The head of an answer is bounded by
`http1`, its body here, both compressed and decompressed. Nothing of a body is decoded before all of it has arrived
within bounds.
"""

from __future__ import annotations

import asyncio
import hashlib
import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, NamedTuple, TypeVar

from prometheus_client import Counter

from registry.flowcontrol.byte_shares import ByteShares
from registry.flowcontrol.fair_queue import TooManyRequests
from registry.gauges import LoopGauge
from registry.webhooks.answers import run_aside
from registry.webhooks.connection import Dialer, Lost, Origin, Resolver
from registry.webhooks.egress import EgressPolicy
from registry.webhooks.http1 import MAX_SMALL_PIECES, ConnectTimeouts, Head, HttpConnection
from registry.webhooks.slots import Slots
from registry.webhooks.streaming import Connections, PooledServer
from registry.webhooks.tls import TlsContexts, system_context

T = TypeVar("T")

ANSWERS: Final = LoopGauge(
    "registry_webhook_answer_bytes",
    "Bytes of large answers of webhooks and aggregated servers that are read or decoded.",
)
REFUSED: Final = Counter(
    "registry_webhook_answers_refused", "Large answers of webhooks and aggregated servers for which there was no room."
)

# The tenant of calls that are the server's own. No tenant has this number.
PLATFORM: Final = 0
# Concurrent calls of a tenant, to one server and in all; each has a connection. Others wait, which is head time.
_CALLS_OF_SERVER: Final = 16
_CALLS_OF_TENANT: Final = 64
# Few enough that a tenant with all of them and all its calls is below the limit of connections.
_IDLE: Final = 128
# How much of an unsuccessful answer is read, for the error.
_REFUSAL_BYTES: Final = 64 * 1024
# Answers beyond the first size are read and decoded one at a time per tenant. The second is shared between tenants: an
# answer does not wait for those of others, which might take their time.
_LARGE_BYTES: Final = 1024 * 1024
_LARGE_BYTES_IN_ALL: Final = 64 * 1024 * 1024
_SENT_AT_ONCE: Final = 256 * 1024
_INFLATED_AT_ONCE: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds for each phase and bytes of a body. The head's time counts from the start of the exchange."""

    resolve_seconds: float = 5
    connect_seconds: float = 5
    tls_seconds: float = 10
    head_seconds: float = 30
    body_seconds: float = 10
    body_bytes: int = 16 * 1024 * 1024


class HttpsRequest(NamedTuple):
    """`target` is the path with its query, in ASCII."""

    method: str
    target: str
    headers: Mapping[str, str] = MappingProxyType({})
    body: bytes = b""


class HttpsAnswer(NamedTuple):
    status: int
    content_type: str
    retry_after: str
    data: bytes


class HttpsClient:
    """A connection belongs to one tenant and one origin: it is never used for another's name, CA or place, and a
    tenant's slow servers delay no other tenant's calls, even of the same server."""

    def __init__(self, policy: EgressPolicy, limits: Limits = Limits()) -> None:
        self._limits = limits
        self.resolver = Resolver()
        self.dialer = Dialer(policy, self.resolver, resolve_seconds=limits.resolve_seconds)
        self._connections = Connections(
            self.dialer, ConnectTimeouts(limits.connect_seconds, limits.tls_seconds), most_idle=_IDLE
        )
        self._contexts = TlsContexts()
        self._of_server: Slots[PooledServer] = Slots(_CALLS_OF_SERVER)
        self._of_tenant: Slots[int] = Slots(_CALLS_OF_TENANT)
        self._large_of_tenant: Slots[int] = Slots(1)
        # Also of aggregated servers, to requests of this server.
        self.large_answers = ByteShares(_LARGE_BYTES_IN_ALL, ANSWERS, REFUSED)

    async def aclose(self) -> None:
        self._connections.close()
        self.resolver.close()

    async def exchange(
        self,
        tenant: int,
        origin: Origin,
        request: HttpsRequest,
        read: Callable[[HttpsAnswer], T],
        *,
        new: bool = False,
        repeatable: bool = True,
    ) -> T:
        """Returns what `read`, which is pure, makes of the answer. Raises Unreachable, Lost, ssl.SSLError for a bad
        `ca`.

        `new` asks for a new connection. One that may be closed by the
        server at any moment is only used if the request is `repeatable`.
        """
        async with AsyncExitStack() as held:
            try:
                async with asyncio.timeout(self._limits.head_seconds):
                    server = await self._server(tenant, origin)
                    await held.enter_async_context(self._of_server.hold(server))
                    await held.enter_async_context(self._of_tenant.hold(tenant))
                    connection = await self._connections.acquire(server, fresh=not repeatable, new=new)
                    held.callback(self._connections.release, server, connection)
                    head = await _send(connection, _head(origin, request), request.body)
            except TimeoutError as error:
                raise Lost("net/http: timeout awaiting response headers") from error
            answer = await self._body(tenant, connection, head, held)
            return await run_aside(len(answer.data), lambda: read(answer))

    async def _server(self, tenant: int, origin: Origin) -> PooledServer:
        context = await self._contexts.get(tenant, origin.ca) if origin.ca else system_context()
        digest = hashlib.sha256(origin.ca.encode()).hexdigest() if origin.ca else ""
        return PooledServer(tenant, replace(origin, ca=""), digest, context)

    async def _body(self, tenant: int, connection: HttpConnection, head: Head, held: AsyncExitStack) -> HttpsAnswer:
        """Reads the body within its bounds. A large one counts among the tenant's until `held` is closed."""
        if head.status == 101:
            raise Lost("the server switches protocols")
        headers = {name: value.decode("latin-1") for name, value in head.headers}
        success = 200 <= head.status <= 206
        most = self._limits.body_bytes if success else _REFUSAL_BYTES
        length = headers.get(b"content-length", "")
        if success and length.isdigit() and int(length[:20]) > most:
            raise _too_long(most)
        pieces: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                async for piece in _decompress(_raw(connection, most), headers.get(b"content-encoding", "")):
                    before, size = size, size + len(piece)
                    if size > most:
                        if success:
                            raise _too_long(most)
                        pieces.append(piece[: most - before])
                        break
                    if before <= _LARGE_BYTES < size:
                        await held.enter_async_context(self._large_of_tenant.hold(tenant))
                        before = 0
                    if size > _LARGE_BYTES:
                        self._take(tenant, size - before, held)
                    pieces.append(piece)
        except TimeoutError as error:
            pieces.clear()
            raise Lost("context deadline exceeded while reading body") from error
        except BaseException:
            pieces.clear()  # an error keeps its frames alive while it is handled
            raise
        return HttpsAnswer(
            head.status, headers.get(b"content-type", ""), headers.get(b"retry-after", ""), b"".join(pieces)
        )

    def _take(self, tenant: int, count: int, held: AsyncExitStack) -> None:
        """Counts a part of a large answer until `held` is closed. Raises Lost if there is no room for it."""
        try:
            self.large_answers.take(str(tenant), count)
        except TooManyRequests:
            raise Lost("too many long answers are being read") from None
        held.callback(self.large_answers.give_back, str(tenant), count)


def _head(origin: Origin, request: HttpsRequest) -> bytes:
    method, target, headers, body = request
    fields = {
        "Host": origin.authority,
        "Accept-Encoding": "gzip",
        "User-Agent": "registry",
        **headers,
        **({"Content-Length": str(len(body))} if body or method == "POST" else {}),
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"{method} {target} HTTP/1.1\r\n{lines}\r\n".encode("ascii")


async def _send(connection: HttpConnection, head: bytes, body: bytes) -> Head:
    """Sends a request, and returns the head of the response. A server may respond before it has read everything."""
    connection.begin(head + body[:_SENT_AT_ONCE], max_small_pieces=MAX_SMALL_PIECES)
    try:
        for start in range(_SENT_AT_ONCE, len(body), _SENT_AT_ONCE):
            await connection.write(body[start : start + _SENT_AT_ONCE])
    except Lost:
        pass
    return await connection.head()


async def _raw(connection: HttpConnection, most: int) -> AsyncIterator[bytes]:
    """Yields the body as it arrives, at most `most` bytes and a margin."""
    size = 0
    while piece := await connection.read():
        size += len(piece)
        if size > most + _REFUSAL_BYTES:
            raise _too_long(most)
        yield piece


async def _decompress(pieces: AsyncIterator[bytes], encoding: str) -> AsyncIterator[bytes]:
    encoding = encoding.strip().lower()
    if encoding in ("", "identity"):
        async for piece in pieces:
            yield piece
        return
    if encoding not in ("gzip", "x-gzip"):
        raise Lost("the answer has a content encoding that was not asked for")
    inflater = zlib.decompressobj(16 + zlib.MAX_WBITS)
    async for piece in pieces:
        for data in _inflate(inflater, piece):
            yield data
            await asyncio.sleep(0)
    if not inflater.eof:
        raise Lost("unexpected EOF")


def _inflate(inflater: zlib._Decompress, piece: bytes) -> Iterator[bytes]:
    """Yields what `piece` adds, in bounded parts; one gzip member only."""
    while True:
        try:
            data = inflater.decompress(piece, _INFLATED_AT_ONCE)
        except zlib.error as error:
            raise Lost("gzip: invalid data") from error
        if inflater.unused_data:
            raise Lost("gzip: invalid header")
        if data:
            yield data
        piece = inflater.unconsumed_tail
        if not piece and len(data) < _INFLATED_AT_ONCE:
            return


def _too_long(most: int) -> Lost:
    return Lost(f"the answer is longer than {most} bytes")
