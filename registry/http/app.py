"""The Starlette application of a serving process: its lifespan creates the objects, the handler chain serves requests.

Provides what registry/http/serving/server.py expects of an application: `app.state.stopping` is an event that ends
watches.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncIterator, Awaitable

from starlette.applications import Starlette
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from registry.http.composition import serving
from registry.http.serving.stopping import Stopping
from registry.settings.declarations import Settings
from registry.store.errors import StoreError


class Application(Starlette):
    """Answers requests between startup and shutdown. The database is opened at startup."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(lifespan=self._run)
        self._settings = settings
        self._handler: ASGIApp = _not_started
        self.state.stopping = Stopping()

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:  # type: ignore[override]
        """Bypasses Starlette's own middlewares and routes: the handler chain has both. A coroutine of its own
        would take 0.3 kB of each watch."""
        if scope["type"] == "http":
            return self._handler(scope, receive, send)
        return super().__call__(scope, receive, _without_traceback(send))

    @contextlib.asynccontextmanager
    async def _run(self, _: Starlette) -> AsyncIterator[None]:
        async with serving(self._settings, self.state.stopping) as started:
            self._handler, self.state.backend = started
            try:
                yield
            finally:
                self._handler = _not_started


async def _not_started(scope: Scope, receive: Receive, send: Send) -> None:
    raise RuntimeError("the application has not been started, or has stopped")


def _without_traceback(send: Send) -> Send:
    """Replaces Starlette's traceback of a failed start, which is of no use if the database is unavailable."""

    async def send_reason(message: Message) -> None:
        if message["type"] == "lifespan.startup.failed" and isinstance(error := sys.exception(), StoreError):
            message = {**message, "message": f"the database: {error}"}
        await send(message)

    return send_reason
