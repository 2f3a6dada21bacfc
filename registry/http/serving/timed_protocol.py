"""The times of a connection: of a request's head, of a client that does not read, and between requests.

Those of a body are in backlog.py, that of a TLS handshake in acceptor.py.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

# net/http's ReadHeaderTimeout, as kube-apiserver has it.
HEAD_SECONDS = 32.0
# For a client that does not read what it is sent. Some 64 KiB wait for it.
READ_SECONDS = 120.0


class TimedProtocol(HttpToolsProtocol):
    """uvicorn's connection, which closes itself when it waits too long.

    Invariant: `_head_timer` is armed exactly while a request's head is incomplete, from its first byte on (for the
    first request: from the connection on), `_stall_timer` while more has been written than the client reads.
    `_idle_since` is when it began to wait for another request, by the clock of the event loop; None while it does not.
    """

    # A base class, not objects of their own: these would take 0.5 kB of each connection.
    __slots__ = ("_head_timer", "_idle_since", "_stall_timer")

    def __init__(self, config: Config, server_state: ServerState, app_state: dict[str, Any]) -> None:
        super().__init__(config, server_state, app_state)
        self._head_timer: asyncio.TimerHandle | None = None
        self._stall_timer: asyncio.TimerHandle | None = None
        self._idle_since: float | None = None

    # -- the head of a request
    def _begin_head(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_SECONDS, self._head_is_late)

    def _end_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_is_late(self) -> None:
        self._head_timer = None
        if not self.transport.is_closing():
            self.transport.close()

    # -- a client that does not read
    def pause_writing(self) -> None:
        super().pause_writing()
        if self._stall_timer is None:
            self._stall_timer = self.loop.call_later(READ_SECONDS, self._client_does_not_read)

    def resume_writing(self) -> None:
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None
        super().resume_writing()

    def _client_does_not_read(self) -> None:
        self._stall_timer = None
        self.transport.abort()

    # -- between requests
    def _begin_idle(self) -> None:
        """Limits the time until the next request. The timer is kept through requests: uvicorn's, one for each answer,
        takes 2 µs."""
        self._idle_since = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self._arm_idle(self._idle_since)

    def _arm_idle(self, since: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_at(since + self.timeout_keep_alive, self._look_if_idle)

    def _look_if_idle(self) -> None:
        self.timeout_keep_alive_task = None
        if self._idle_since is None or self.transport.is_closing():
            return  # the next answer arms it again
        if self.loop.time() < self._idle_since + self.timeout_keep_alive:
            self._arm_idle(self._idle_since)
        else:
            self.transport.close()

    def _unset_keepalive_if_required(self) -> None:
        self._idle_since = None

    def _end_idle(self) -> None:
        """The timer refers to the connection, which would keep its memory without being counted any more."""
        if self.timeout_keep_alive_task is not None:
            self.timeout_keep_alive_task.cancel()
            self.timeout_keep_alive_task = None
