"""An acceptor of connections that serves an application of a test."""

from __future__ import annotations

import contextlib
import ssl
import weakref
from collections.abc import AsyncIterator
from typing import Any

import uvicorn
from uvicorn.server import ServerState

from registry.http.serving.acceptor import Acceptor
from registry.http.serving.connection_shares import ConnectionShares, ConnectionSlot
from registry.http.serving.protocol import Protocol
from registry.http.serving.server import bind
from tests.api.client import eventually
from tests.http.streams import Application, hello


@contextlib.asynccontextmanager
async def accepting(
    limit: int,
    context: ssl.SSLContext | None = None,
    application: Application = hello,
    references: list[weakref.ref[Protocol]] | None = None,
    idle_seconds: Any = 10_000,
) -> AsyncIterator[tuple[Acceptor, int]]:
    """An acceptor, and its port. `references` receives one of each connection, `idle_seconds` ends an idle one."""
    served: Any = application
    config = uvicorn.Config(
        served,
        http=Protocol,
        interface="asgi3",
        lifespan="off",
        log_config=None,
        server_header=False,
        timeout_keep_alive=idle_seconds,
    )
    config.load()
    state = ServerState()
    [listener] = bind("127.0.0.1", 0, 1)

    def make(slot: ConnectionSlot) -> Protocol:
        protocol = Protocol(config, state, {}, slot)
        if references is not None:
            references.append(weakref.ref(protocol))
        return protocol

    made = Acceptor([listener], make, context, ConnectionShares(limit))
    made.start()
    try:
        yield made, listener.getsockname()[1]
    finally:
        made.stop()
        listener.close()
        for one in list(state.connections):
            one.transport.abort()

        async def over() -> bool:
            return made.shares.count == 0

        await eventually(over)
