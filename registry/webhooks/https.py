"""One HTTPS exchange with a server that somebody else has named: each phase and each size is bounded.

Redirects are not followed, proxies from the environment not used, cookies not kept. The head of an answer is bounded by
the HTTP library (100 KiB including trailers), its body here, both compressed and decompressed. Nothing of a body is
decoded before all of it has arrived within bounds.
"""

from __future__ import annotations

import asyncio
import ssl
import zlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple, TypeVar

import httpcore

from registry.webhooks.answers import run_aside
from registry.webhooks.connection import AddressCheckingBackend, Dialer, Origin, Unreachable
from registry.webhooks.egress import EgressPolicy
from registry.webhooks.resolver import Resolver

T = TypeVar("T")

# Connections to one server, so that concurrent requests do not flood it.
_CONNECTIONS: Final = 16
# Servers with kept connections; beyond it the least recently used idle one is closed.
_POOLS: Final = 256
# How much of an unsuccessful answer is read, for the error.
_REFUSAL_BYTES: Final = 64 * 1024
# Answers beyond the first size are read and decoded this many at a time per process.
_LARGE_BYTES: Final = 1024 * 1024
_LARGE_AT_ONCE: Final = 4
# Chunks of an answer: each costs about 20 µs, however short it is. Every 64th yields to others.
_MAX_PIECES: Final = 50_000
_PIECES_AT_ONCE: Final = 64
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


class HttpsAnswer(NamedTuple):
    status: int
    content_type: str
    retry_after: str
    data: bytes


class Lost(Unreachable):
    """The connection yielded no valid answer. `may_repeat` if it ended before an answer."""

    def __init__(self, text: str, *, may_repeat: bool = False) -> None:
        super().__init__(text)
        self.may_repeat = may_repeat


class HttpsClient:
    """Kept connections belong to one origin: a connection is never used for another's name, CA or place."""

    def __init__(self, policy: EgressPolicy, limits: Limits = Limits()) -> None:
        self._limits = limits
        self.resolver = Resolver()
        self.dialer = Dialer(policy, self.resolver, resolve_seconds=limits.resolve_seconds)
        self._pools: OrderedDict[Origin, _Pool] = OrderedDict()
        self._large = asyncio.Semaphore(_LARGE_AT_ONCE)

    async def aclose(self) -> None:
        pools, self._pools = list(self._pools.values()), OrderedDict()
        for pool in pools:
            await pool.connections.aclose()
        self.resolver.close()

    async def exchange(
        self,
        origin: Origin,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes,
        read: Callable[[HttpsAnswer], T],
    ) -> T:
        """Returns what `read`, which is pure, makes of the answer. Raises Unreachable, Lost, ssl.SSLError for a bad
        `ca`.

        `target` is the path with its query, in ASCII.
        """
        pool = await self._pool(origin)
        request = httpcore.Request(
            method,
            httpcore.URL(scheme=b"https", host=origin.host.encode(), port=origin.port, target=target.encode()),
            headers=[
                ("Host", origin.authority),
                ("Accept-Encoding", "gzip"),
                ("User-Agent", "registry"),
                *headers.items(),
                *([("Content-Length", str(len(body)))] if body else []),
            ],
            content=body,
            extensions={"timeout": {"connect": self._limits.tls_seconds}},
        )
        pool.busy += 1
        try:
            async with AsyncExitStack() as held:
                answer = await self._answer(pool, request, held)
                return await run_aside(len(answer.data), lambda: read(answer))
        finally:
            pool.busy -= 1

    async def _answer(self, pool: _Pool, request: httpcore.Request, held: AsyncExitStack) -> HttpsAnswer:
        try:
            response = await self._head(pool, request)
            try:
                return await self._body(pool, response, held)
            finally:
                await response.aclose()
        except (httpcore.RemoteProtocolError, httpcore.ReadError, httpcore.WriteError) as error:
            raise Lost("EOF", may_repeat=True) from error
        except (httpcore.ConnectError, httpcore.TimeoutException) as error:
            raise tls_failure(error) from error
        except (httpcore.NetworkError, httpcore.ProtocolError) as error:
            raise Lost("net/http: the connection broke") from error

    async def _head(self, pool: _Pool, request: httpcore.Request) -> httpcore.Response:
        try:
            async with asyncio.timeout(self._limits.head_seconds):
                return await pool.connections.handle_async_request(request)
        except TimeoutError as error:
            raise Lost("net/http: timeout awaiting response headers") from error

    async def _body(self, pool: _Pool, response: httpcore.Response, held: AsyncExitStack) -> HttpsAnswer:
        """Reads the body within its bounds. A large one occupies a slot for large answers until `held` is closed."""
        headers = {name.lower(): value.decode("latin-1") for name, value in response.headers}
        success = 200 <= response.status <= 206
        most = self._limits.body_bytes if success else _REFUSAL_BYTES
        length = headers.get(b"content-length", "")
        if success and length.isdigit() and int(length[:20]) > most:
            raise _too_long(most)
        pieces: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                async for piece in _decompress(_raw(response, most), headers.get(b"content-encoding", "")):
                    before, size = size, size + len(piece)
                    if size > most:
                        if success:
                            raise _too_long(most)
                        break
                    if before <= _LARGE_BYTES < size:
                        await held.enter_async_context(pool.large)
                        await held.enter_async_context(self._large)
                    pieces.append(piece)
        except TimeoutError as error:
            pieces.clear()
            raise Lost("context deadline exceeded while reading body") from error
        except BaseException:
            pieces.clear()  # an error keeps its frames alive while it is handled
            raise
        return HttpsAnswer(
            response.status, headers.get(b"content-type", ""), headers.get(b"retry-after", ""), b"".join(pieces)
        )

    async def _pool(self, origin: Origin) -> _Pool:
        pool = self._pools.get(origin)
        if pool is not None:
            self._pools.move_to_end(origin)
            return pool
        network = AddressCheckingBackend(origin, self.dialer, connect_seconds=self._limits.connect_seconds)
        pool = self._pools[origin] = _Pool(
            httpcore.AsyncConnectionPool(
                ssl_context=tls_context(origin.ca),
                max_connections=_CONNECTIONS,
                max_keepalive_connections=_CONNECTIONS,
                keepalive_expiry=60,
                network_backend=network,
            )
        )
        if len(self._pools) > _POOLS:
            idle = next((key for key, other in self._pools.items() if not other.busy and other is not pool), None)
            if idle is not None:
                await self._pools.pop(idle).connections.aclose()
        return pool


@dataclass(slots=True)
class _Pool:
    """`busy` counts the exchanges in progress: while there are any, the pool is not closed to make room.

    `large` keeps one server from taking all slots for large answers.
    """

    connections: httpcore.AsyncConnectionPool
    busy: int = 0
    large: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))


async def _raw(response: httpcore.Response, most: int) -> AsyncIterator[bytes]:
    """Yields the body as it arrives, at most `most` bytes and a margin."""
    count = size = 0
    async for piece in response.aiter_stream():
        count += 1
        size += len(piece)
        if size > most + _REFUSAL_BYTES:
            raise _too_long(most)
        if count > _MAX_PIECES:
            raise Lost(f"the answer comes in more than {_MAX_PIECES} pieces")
        if count % _PIECES_AT_ONCE == 0:
            await asyncio.sleep(0)
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


def tls_context(ca: str, *, shared: bool = True) -> ssl.SSLContext:
    """Returns a context for `ca` in PEM, or the system's roots if it is empty, as Go's client has. Raises ssl.SSLError.

    One that is not `shared` belongs to the caller, who may change it.

    Each certificate of the bundle is trusted, including intermediate ones and the server's own. Names must be subject
    alternative names; the subject is ignored.
    """
    return _context(ca) if ca or not shared else _system_context()


@lru_cache(1)
def _system_context() -> ssl.SSLContext:
    return _context("")


def _context(ca: str) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=ca or None)
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    # Newer Pythons set it; CAs that Go creates without key identifiers fail it.
    context.verify_flags &= ~ssl.VerifyFlags.VERIFY_X509_STRICT
    context.hostname_checks_common_name = False
    return context


def tls_failure(error: BaseException) -> Unreachable:
    cause: BaseException | None = error
    while cause is not None:
        match cause:
            case ssl.SSLCertVerificationError():
                return Unreachable(f"tls: failed to verify certificate: x509: {_certificate_problem(cause)}")
            case ssl.SSLError():
                return Unreachable(f"tls: {cause.reason or 'handshake failure'}")
            case httpcore.TimeoutException():
                return Unreachable("net/http: TLS handshake timeout")
        cause = cause.__cause__ or cause.__context__
    return Unreachable("tls: the connection ended during the handshake")


def _certificate_problem(error: ssl.SSLCertVerificationError) -> str:
    # OpenSSL's codes: 10 expired, 62 and 64 wrong name or address; the others are untrusted chains.
    match error.verify_code:
        case 10:
            return "certificate has expired or is not yet valid"
        case 62 | 64:
            return f"certificate is not valid for this name: {error.verify_message}"
        case _:
            return "certificate signed by unknown authority"
