"""One serving process: uvicorn on sockets that are already bound, with an orderly shutdown.

On the first SIGTERM or SIGINT the process stops accepting, sets `app.state.stopping` (an asyncio.Event: watches wait
for it and end their streams cleanly), lets requests in flight finish within `shutdown_seconds`, then ends the
application's lifespan. A second signal ends at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import faulthandler
import importlib
import logging
import signal
import socket
import ssl
import sys
from collections.abc import Callable, Iterator
from types import FrameType

import uvicorn
from starlette.applications import Starlette

from registry.flowcontrol.allocator import short_searches
from registry.http.serving import tls
from registry.http.serving.acceptor import Acceptor, most_connections
from registry.http.serving.connection_shares import ConnectionShares, ConnectionSlot
from registry.http.serving.protocol import Protocol
from registry.http.serving.tls import TlsFiles
from registry.settings.declarations import Settings

logger = logging.getLogger(__name__)

APPLICATION = "registry.http.app:Application"

# Longer than the idle time of common load balancers (60 s), which must be the first to close.
KEEP_ALIVE_SECONDS = 75
# How often the TLS files are checked for changes.
CHECK_SECONDS = 60.0
BACKLOG = 2048
# After the signal to stop, for requests in transit on idle connections.
IDLE_SECONDS = 1.0
# The part of the shutdown time that is for the application, after the requests.
APPLICATION_SECONDS = 5.0
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class ServeError(Exception):
    """The server cannot be started; the text is one line for the user."""


def bind(host: str, port: int, count: int) -> list[socket.socket]:
    """Returns `count` listening sockets on one port, one for each process.

    On Linux the kernel distributes connections evenly over listening sockets that share a port. If there are several,
    those that are returned only reserve the port: each process gets its own by `duplicate_listener`, and listens when
    it serves. Connections waiting for it are refused when it dies, so that they do not wait for its successor.
    Elsewhere all processes share one socket.
    """
    try:
        # The first without SO_REUSEPORT, which would share another server's port instead of being refused.
        first = _listen(host, port, reuse_port=False)
        if count == 1:
            return [first]
        if sys.platform != "linux":
            return [first, *(first.dup() for _ in range(count - 1))]
        port = first.getsockname()[1]
        first.close()
        return [_listen(host, port, reuse_port=True) for _ in range(count)]
    except (OSError, UnicodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) and problem.strerror else str(problem)
        hint = "; choose another --port" if getattr(problem, "errno", None) == errno.EADDRINUSE else ""
        raise ServeError(f"cannot listen on {host} port {port}: {reason}{hint}") from problem


def duplicate_listener(listener: socket.socket) -> socket.socket:
    """Returns a socket for a process: bound to the same port but not listening, or the same one if it is shared."""
    if sys.platform != "linux":
        return listener.dup()
    copy = socket.socket(listener.family, listener.type, listener.proto)
    copy.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    copy.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    if listener.family == socket.AF_INET6:
        only = listener.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY)
        copy.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, only)
    copy.bind(listener.getsockname())
    copy.setblocking(False)
    return copy


def _listen(host: str, port: int, *, reuse_port: bool) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    copy = socket.socket(family, kind, protocol)
    try:
        copy.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if reuse_port:
            copy.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6 and host in ("::", ""):
            copy.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        copy.bind(address)
        if not reuse_port:
            copy.listen(BACKLOG)
        copy.setblocking(False)
    except OSError:
        copy.close()
        raise
    return copy


def run(
    settings: Settings,
    listener: socket.socket,
    *,
    application: str = APPLICATION,
    when_ready: Callable[[], None] = lambda: None,
    when_stopping: Callable[[], None] = lambda: None,
    parent: socket.socket | None = None,
) -> None:
    """Serves until a signal.

    `when_stopping` is called when the shutdown begins; the end of the connection `parent` means that the parent process
    is gone.
    """
    module, _, factory = application.partition(":")
    app = getattr(importlib.import_module(module), factory)(settings)
    Server(settings, app, when_ready, parent, when_stopping).run(sockets=[listener])


def certificates(settings: Settings) -> tls.Certificates:
    """Returns the user's certificate, else our own (created if needed)."""
    if settings.tls_cert_file is not None and settings.tls_private_key_file is not None:
        return tls.Certificates(settings.tls_cert_file, settings.tls_private_key_file, None)
    return tls.ensure_certificates(settings.data_dir, settings.host, settings.tls_names)


def security_headers(settings: Settings) -> list[tuple[str, str]]:
    """Returns the headers of every answer. Answers are not pages, so there are none for frames and scripts."""
    headers = [("x-content-type-options", "nosniff")]
    if settings.strict_transport_security:
        headers.append(("strict-transport-security", settings.strict_transport_security))
    return headers


def root_certificates(settings: Settings) -> str:
    """Returns what clients verify this server by, in PEM: our own CA, or the certificate that the user brings."""
    if settings.plain_http:
        return ""
    served = certificates(settings)
    return (served.authority or served.certificate).read_text(encoding="ascii", errors="replace")


class Server(uvicorn.Server):
    """uvicorn's server with our shutdown, and with certificates that are reloaded when their files change."""

    def __init__(
        self,
        settings: Settings,
        app: Starlette,
        when_ready: Callable[[], None],
        parent: socket.socket | None,
        when_stopping: Callable[[], None] = lambda: None,
    ) -> None:
        files = None if settings.plain_http else TlsFiles(lambda: certificates(settings), settings.client_ca_file)
        config = uvicorn.Config(
            app,
            http=Protocol,
            interface="asgi3",
            loop="uvloop",
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            headers=security_headers(settings),
            proxy_headers=False,
            backlog=BACKLOG,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=settings.shutdown_seconds,
            ssl_context_factory=None if files is None else lambda _config, _default: files.context(),
        )
        super().__init__(config)
        self._app = app
        self._when_ready = when_ready
        self._when_stopping = when_stopping
        self._parent = parent
        self._files = files
        self._settings = settings
        self._acceptor: Acceptor | None = None
        self._while_serving = contextlib.ExitStack()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        # We accept connections, so uvicorn must not have a listener.
        await super().startup([])
        if self.lifespan.should_exit:
            raise ServeError("the application did not start; its messages are above")
        self._while_serving.enter_context(short_searches())
        context = self.config.ssl if isinstance(self.config.ssl, ssl.SSLContext) else None
        shares = ConnectionShares(most_connections(self._settings.max_connections))
        self._acceptor = Acceptor(sockets or [], self._protocol, context, shares)
        for listener in sockets or []:
            # Only now: until it listens, the kernel gives its connections to others on the same port.
            listener.listen(BACKLOG)
        self._acceptor.start()
        if self._parent is not None:
            asyncio.get_running_loop().add_reader(self._parent, self._parent_is_gone)
        self._when_ready()

    async def on_tick(self, counter: int) -> bool:
        """Called ten times a second by uvicorn, `counter` rising by one."""
        if self._files is not None and (counter + 1) % round(CHECK_SECONDS * 10) == 0:
            await self._look_again(self._files)
        return await super().on_tick(counter)

    def _protocol(self, slot: ConnectionSlot) -> Protocol:
        return Protocol(self.config, self.server_state, self.lifespan.state, slot)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Replaces uvicorn's, which waits for the application without a limit."""
        self._when_stopping()
        loop = asyncio.get_running_loop()
        self._app.state.stopping.begin()
        self._drain()
        if self._acceptor is not None and self._acceptor.is_open:
            await self._sleep(self._settings.shutdown_delay_seconds)
        deadline = loop.time() + self._settings.shutdown_seconds
        self._app.state.stopping.set()
        if self._acceptor is not None:
            self._acceptor.close()
        if self._parent is not None:
            loop.remove_reader(self._parent)
        for listener in sockets or []:
            listener.close()
        self._drain()
        self._while_serving.close()
        # Part of the time is the application's, whose writes must not be lost for a client that does not read.
        await self._finish_requests(deadline - min(APPLICATION_SECONDS, self._settings.shutdown_seconds / 3))
        if self.force_exit:
            return
        try:
            async with asyncio.timeout_at(deadline):
                await self.lifespan.shutdown()
        except TimeoutError:
            logger.error("the application did not end in time")

    def _drain(self) -> None:
        for connection in list(self.server_state.connections):
            if isinstance(connection, Protocol):
                connection.drain()

    async def _sleep(self, seconds: float) -> None:
        """Sleeps until the time is over, or a second signal. Connections made meanwhile get one answer."""
        end = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < end and not self.force_exit:
            await asyncio.sleep(0.1)
            self._drain()

    async def _finish_requests(self, deadline: float) -> None:
        """Waits for the requests in flight; those on idle connections may be in transit when the signal comes."""
        loop = asyncio.get_running_loop()
        idle_until = min(loop.time() + IDLE_SECONDS, deadline)
        while (self.server_state.connections or self.server_state.tasks) and not self.force_exit:
            if loop.time() >= deadline:
                logger.error("%d requests did not finish in time and are cancelled", len(self.server_state.tasks))
                for task in self.server_state.tasks:
                    task.cancel()
                for connection in list(self.server_state.connections):
                    connection.transport.abort()
                await asyncio.sleep(0.1)
                return
            if loop.time() >= idle_until:
                for connection in list(self.server_state.connections):
                    connection.shutdown()  # after the current answer, if there is one
            await asyncio.sleep(0.05)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """As uvicorn's, but the signal is not raised again at the end: the caller has to clean up."""
        previous = {number: signal.signal(number, self.handle_exit) for number in STOP_SIGNALS}
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()
            for number, handler in previous.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Sets flags, which the loop checks ten times a second.

        If the loop is blocked, the process ends with a traceback of what blocks it, a little after the time at which a
        running loop would have ended it (stopping.end_by).
        """
        if self.should_exit:
            self.force_exit = True
        else:
            latest = self._settings.shutdown_delay_seconds + max(1, self._settings.shutdown_seconds) + 2
            faulthandler.dump_traceback_later(latest, exit=True)
        self.should_exit = True

    def _parent_is_gone(self) -> None:
        assert self._parent is not None
        try:
            has_ended = not self._parent.recv(64)
        except ConnectionError:  # the parent died before it read what we had sent
            has_ended = True
        if has_ended:
            asyncio.get_running_loop().remove_reader(self._parent)
            logger.warning("the parent process is gone: stopping")
            if self._acceptor is not None:
                self._acceptor.close()  # at once, whatever the delay of a shutdown: the next server needs the port
            self.should_exit = True

    async def _look_again(self, files: TlsFiles) -> None:
        """Uses changed files for new connections, and renews our own certificate before it expires.

        If the CA of clients changes, connections that have presented a certificate are closed after their current
        request: clients that reconnect are verified against the new one.
        """
        reloaded = await asyncio.get_running_loop().run_in_executor(None, files.reload)
        if reloaded is None or self._acceptor is None:
            return
        self._acceptor.context = reloaded.context
        if reloaded.client_ca:
            for connection in list(self.server_state.connections):
                if isinstance(connection, Protocol) and connection.has_client_certificate:
                    connection.shutdown()
