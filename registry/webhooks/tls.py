"""TLS to external servers: whom a CA bundle trusts, and why a handshake failed.

A handshake is charged to the tenant, and the end of the TCP connection is kept from TLS until everything before it has
been decrypted. The TLS of asyncio and of uvloop drops what it has not decrypted when the peer closes the connection:
after `eof_received` it fills one more buffer of a BufferedProtocol, or none while reading is paused, and shuts down
(`_do_flush` of SSLProtocol). Of a server that sends an answer and closes, the last tens of kilobytes would be lost.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from functools import lru_cache
from typing import Final, NamedTuple, cast

from registry.caches import LruCache
from registry.flowcontrol.evaluation import aside
from registry.flowcontrol.key_exchange import CLIENT_CIPHERS, allow_cheap_key_exchanges, allow_short_chains
from registry.flowcontrol.loop_share import LoopShare
from registry.webhooks.connection import Unreachable
from registry.webhooks.slots import Slots

# CA bundles are the clients'; the system's has about 220 KiB.
BUNDLE_LIMIT: Final = 512 * 1024
_SYSTEM_BYTES: Final = 256 * 1024
# What a context takes without certificates.
_CONTEXT_BYTES: Final = 8 * 1024
# Bytes of bundles: of the contexts that are kept, of those that one tenant has in use, and of those that all have, of
# which a tenant may have as much as is still free. OpenSSL takes seven times as much.
_KEPT_BYTES: Final = 4 * 1024 * 1024
_BYTES_OF_TENANT: Final = 4 * 1024 * 1024
_BYTES_OF_PROCESS: Final = 24 * 1024 * 1024
_KEPT_SECONDS: Final = 12 * 3600.0
# A certificate takes a fifth of a millisecond or more, in which no other thread runs.
_LOADED_AT_ONCE: Final = 8
_INLINE_BYTES: Final = 8 * 1024
_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"

_background: Final = ThreadPoolExecutor(1, "tls-contexts")


class _Kept(NamedTuple):
    context: ssl.SSLContext
    weight: int
    until: float


class TlsContexts:
    """The contexts of tenants, kept for a while, and bounded by the bundles that they are made from.

    `complete` changes a new context for its tenant. Invariant: `_of_tenants` counts the contexts that exist, `_bytes`
    is their sum.
    """

    def __init__(self, complete: Callable[[ssl.SSLContext, int], None] = lambda context, tenant: None) -> None:
        self._complete = complete
        self._kept: LruCache[tuple[int, str, bool], _Kept] = LruCache(_KEPT_BYTES, lambda kept: kept.weight)
        self._of_tenants: Counter[int] = Counter()
        self._bytes = 0
        self._making: Slots[int] = Slots(1)

    async def get(self, tenant: int, ca: str, *, insecure: bool = False) -> ssl.SSLContext:
        """Returns a context for the tenant's servers that trusts `ca` in PEM; "" stands for the system's roots.

        Raises ssl.SSLError for what is no bundle, and Unreachable beyond the limits.
        """
        if len(ca) > BUNDLE_LIMIT:
            raise Unreachable(f"tls: the CA bundle is longer than {BUNDLE_LIMIT} bytes")
        key = (tenant, ca, insecure)
        if (found := self._find(key)) is not None:
            return found
        async with self._making.hold(tenant):
            return self._find(key) or await self._make(key, ca)

    def _find(self, key: tuple[int, str, bool]) -> ssl.SSLContext | None:
        entry = self._kept.get(key)
        return entry.context if entry is not None and time.monotonic() < entry.until else None

    async def _make(self, key: tuple[int, str, bool], ca: str) -> ssl.SSLContext:
        tenant, _, insecure = key
        weight = _CONTEXT_BYTES + (0 if insecure else len(ca) or _SYSTEM_BYTES)
        self._make_room(tenant, weight)

        def work() -> ssl.SSLContext:
            context = _context(ca, insecure=insecure)
            self._complete(context, tenant)
            return context

        context = work() if weight <= _CONTEXT_BYTES + _INLINE_BYTES else await aside(work, _background)
        self._of_tenants[tenant] += weight
        self._bytes += weight
        weakref.finalize(context, self._give_back, tenant, weight).atexit = False
        self._kept.put(key, _Kept(context, weight, time.monotonic() + _KEPT_SECONDS))
        return context

    def _make_room(self, tenant: int, weight: int) -> None:
        for key in self._kept.keys():  # noqa: SIM118 - it is not a dict
            if self._has_room(tenant, weight):
                return
            if key[0] == tenant:
                self._kept.pop(key)
        if not self._has_room(tenant, weight):
            raise Unreachable("tls: the tenant's connections use too many long CA bundles")

    def _has_room(self, tenant: int, weight: int) -> bool:
        free = _BYTES_OF_PROCESS - self._bytes - weight
        return self._of_tenants[tenant] + weight <= min(_BYTES_OF_TENANT, free)

    def _give_back(self, tenant: int, weight: int) -> None:
        self._bytes -= weight
        self._of_tenants[tenant] -= weight
        if not self._of_tenants[tenant]:
            del self._of_tenants[tenant]


@lru_cache(1)
def system_context() -> ssl.SSLContext:
    """Returns the context for the system's roots that all share."""
    return _context("")


def _context(ca: str, *, insecure: bool = False) -> ssl.SSLContext:
    """Returns a context for `ca`, or for the system's roots if it is empty, as Go's client has. Raises ssl.SSLError.

    Each certificate of the bundle is trusted, including intermediate ones and the server's own. Names must be subject
    alternative names; the subject is ignored.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.sslobject_class = MeteredTls
    context.set_ciphers(CLIENT_CIPHERS)
    allow_cheap_key_exchanges(context)
    allow_short_chains(context)
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    # Newer Pythons set it; CAs that Go creates without key identifiers fail it.
    context.verify_flags &= ~ssl.VerifyFlags.VERIFY_X509_STRICT
    context.hostname_checks_common_name = False
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif ca:
        certificates = list(_certificates(ca))
        if not certificates:
            raise ssl.SSLError("no certificate")
        for start in range(0, len(certificates), _LOADED_AT_ONCE):
            context.load_verify_locations(cadata="\n".join(certificates[start : start + _LOADED_AT_ONCE]))
    else:
        context.load_default_certs()
    return context


def _certificates(ca: str) -> Iterator[str]:
    """Yields the certificates of a bundle; other texts and keys between them are skipped, as by Go."""
    for piece in ca.split(_END)[:-1]:
        if (start := piece.rfind(_BEGIN)) >= 0:
            yield f"{piece[start:]}{_END}\n"


def tls_failure(error: BaseException) -> Unreachable:
    """Returns the failure of a handshake in the words of Go's client."""
    cause: BaseException | None = error
    while cause is not None:
        match cause:
            case ssl.SSLCertVerificationError():
                return Unreachable(f"tls: failed to verify certificate: x509: {_certificate_problem(cause)}")
            case ssl.SSLError():
                return Unreachable(f"tls: {cause.reason or 'handshake failure'}")
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


# Of the task that opens a connection, and of the callbacks that it starts.
_share: Final[ContextVar[LoopShare | None]] = ContextVar("share", default=None)


class MeteredTls(ssl.SSLObject):
    """Charges the steps of a handshake. A server chooses the keys of its certificates, of which each may take 8 ms."""

    _charged: LoopShare | None = None

    def do_handshake(self) -> None:
        self._charged = share = self._charged or _share.get()
        began = time.thread_time()
        try:
            super().do_handshake()
        finally:
            if share is not None:
                share.charge_handshake(time.thread_time() - began)


class DecryptedProtocol(asyncio.BufferedProtocol):
    """What TLS passes decrypted data on to. It says whether it has read everything, before each read and after it."""

    _has_read_all = True
    _keeper: EndKeeper | None = None

    @property
    def has_read_all(self) -> bool:
        """Whether the last read has left nothing to decrypt."""
        return self._has_read_all

    @has_read_all.setter
    def has_read_all(self, value: bool) -> None:
        self._has_read_all = value
        if value and self._keeper is not None:
            self._keeper.schedule()

    def keep(self, keeper: EndKeeper | None) -> None:
        """Notifies `keeper` when everything has been read."""
        self._keeper = keeper


class EndKeeper(asyncio.BufferedProtocol):
    """Stands between a TCP connection and its TLS."""

    def __init__(self, transport: asyncio.Transport, application: DecryptedProtocol) -> None:
        """`transport` is the TCP connection, whose protocol is TLS."""
        self._transport = transport
        self._tls = cast(asyncio.BufferedProtocol, transport.get_protocol())
        self._application = application
        self._is_scheduled = False
        # These two need nothing of their own.
        self.get_buffer = self._tls.get_buffer  # type: ignore[method-assign]
        self.connection_lost = self._tls.connection_lost  # type: ignore[method-assign]

    def pause_writing(self) -> None:
        self._tls.pause_writing()

    def resume_writing(self) -> None:
        self._tls.resume_writing()

    def buffer_updated(self, nbytes: int) -> None:
        self._application.has_read_all = False
        self._tls.buffer_updated(nbytes)

    def eof_received(self) -> bool | None:
        if self._application.has_read_all:
            return self._tls.eof_received()
        self._application.keep(self)
        return True

    def schedule(self) -> None:
        """Passes the end on, after the callback that has read everything, unless there is more."""
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._end)

    def _end(self) -> None:
        self._is_scheduled = False
        if self._application.has_read_all:
            self._application.keep(None)
            if not self._transport.is_closing() and not self._tls.eof_received():
                self._transport.close()


async def open_tls(
    opened: socket.socket, context: ssl.SSLContext, host: str, application: DecryptedProtocol, share: LoopShare
) -> None:
    """Begins TLS on a connected socket, for `application`; `share` is that to which the handshake is charged if
    the context's objects are MeteredTls. Raises OSError and ssl.SSLError."""
    loop = asyncio.get_running_loop()
    _share.set(share)
    plain, _ = await loop.create_connection(asyncio.Protocol, sock=opened)
    try:
        # Of a connection that has ended by now, uvloop raises in a callback instead of here.
        if plain.is_closing():
            raise ConnectionResetError
        transport = await loop.start_tls(plain, application, context, server_hostname=host)
    except BaseException:
        plain.abort()
        raise
    # The connection has ended during the handshake, or just after it: then uvloop's has no protocol.
    if transport is None or plain.get_protocol() is None:
        raise ConnectionResetError
    plain.set_protocol(EndKeeper(plain, application))
    application.connection_made(transport)
